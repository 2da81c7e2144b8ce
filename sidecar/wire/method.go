package wire

// Method is what a request asks for.
type Method uint8

// The methods, in the order of docs/protocol.md.
const (
	Hello Method = iota
	ServerPing
	ServerStatus
	ServerLocks
	ServerSessions
	ServerEndRequest
	ClusterMembers
	ClusterJoin
	ClusterLeave
	ClusterForget
	ClusterReload
	SessionOpen
	SessionCommit
	SessionRelease
	SessionDestroy
	SessionExists
	SessionForceRelease
	LockAcquire
	LockRenew
	LockRelease
	LockInfo
	LockList
	LockForceRelease
	KVGet
	KVMGet
	KVSet
	KVSetNX
	KVDel
	KVDelIfEq
	KVExpire
	KVExpireIfEq
	KVPersist
	KVTTL
	KVIncrBy
	KVAppend
	KVGetDel
	KVExists
	KVStrlen
	KVScan
	KVFlush
	KVWait
	Unknown // not a method: what was asked for is none of the above
)

// methods is the table of names and of the parameters each method knows.
var methods = [Unknown + 1]struct {
	name   string
	params set
}{
	Hello:            {"hello", params(pVersion, pClient, pPID, pSAPI)},
	ServerPing:       {"server.ping", 0},
	ServerStatus:     {"server.status", 0},
	ServerLocks:      {"server.locks", params(pLimit)},
	ServerSessions:   {"server.sessions", params(pID, pLimit)},
	ServerEndRequest: {"server.end_request", 0},

	ClusterMembers: {"cluster.members", 0},
	ClusterJoin:    {"cluster.join", params(pAddress)},
	ClusterLeave:   {"cluster.leave", 0},
	ClusterForget:  {"cluster.forget", params(pID, pForce)},
	ClusterReload:  {"cluster.reload", 0},

	SessionOpen:         {"session.open", params(pID, pPrefix, pToken, pLease, pWait, pPolicy, pScript)},
	SessionCommit:       {"session.commit", params(pID, pPrefix, pToken, pFence, pData, pTouch, pTTL, pRelease)},
	SessionRelease:      {"session.release", params(pID, pPrefix, pToken)},
	SessionDestroy:      {"session.destroy", params(pID, pPrefix, pToken)},
	SessionExists:       {"session.exists", params(pID, pPrefix)},
	SessionForceRelease: {"session.force_release", params(pID, pPrefix)},

	LockAcquire:      {"lock.acquire", params(pName, pBucket, pToken, pLease, pWait, pBound, pShared, pScript)},
	LockRenew:        {"lock.renew", params(pName, pBucket, pToken, pLease)},
	LockRelease:      {"lock.release", params(pName, pBucket, pToken)},
	LockInfo:         {"lock.info", params(pName, pBucket, pToken)},
	LockList:         {"lock.list", params(pPrefix, pBucket, pLimit)},
	LockForceRelease: {"lock.force_release", params(pName, pBucket)},

	KVGet:        {"kv.get", params(pKey, pBucket)},
	KVMGet:       {"kv.mget", params(pKeys, pBucket)},
	KVSet:        {"kv.set", params(pKey, pBucket, pValue, pTTL, pNX, pXX, pIfEq, pKeepTTL, pGet)},
	KVSetNX:      {"kv.setnx", params(pKey, pBucket, pValue, pTTL)},
	KVDel:        {"kv.del", params(pKey, pKeys, pBucket)},
	KVDelIfEq:    {"kv.del_if_eq", params(pKey, pBucket, pValue)},
	KVExpire:     {"kv.expire", params(pKey, pBucket, pTTL)},
	KVExpireIfEq: {"kv.expire_if_eq", params(pKey, pBucket, pValue, pTTL)},
	KVPersist:    {"kv.persist", params(pKey, pBucket)},
	KVTTL:        {"kv.ttl", params(pKey, pBucket)},
	KVIncrBy:     {"kv.incr_by", params(pKey, pBucket, pDelta, pTTL, pMissing, pFloor)},
	KVAppend:     {"kv.append", params(pKey, pBucket, pValue)},
	KVGetDel:     {"kv.getdel", params(pKey, pBucket)},
	KVExists:     {"kv.exists", params(pKey, pKeys, pBucket)},
	KVStrlen:     {"kv.strlen", params(pKey, pBucket)},
	KVScan:       {"kv.scan", params(pPrefix, pBucket, pCursor, pCount)},
	KVFlush:      {"kv.flush", params(pBucket)},
	KVWait:       {"kv.wait", params(pKey, pBucket, pVersion, pTimeout)},

	Unknown: {"unknown", 0},
}

var methodByName = func() map[string]Method {
	m := make(map[string]Method, Unknown)
	for i := range Unknown {
		m[methods[i].name] = i
	}
	return m
}()

func (m Method) String() string { return methods[m].name }
