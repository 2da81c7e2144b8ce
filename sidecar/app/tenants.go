package app

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/coatcheck/coatcheck/sidecar/config"
	"github.com/coatcheck/coatcheck/sidecar/resp"
	"github.com/coatcheck/coatcheck/sidecar/tenant"
)

// memoryLimits returns the limits of the tenants that have one of their own.
func (a *App) memoryLimits() map[string]int64 {
	limits := make(map[string]int64)
	for _, t := range a.cfg.Tenants {
		if t.MemoryLimit > 0 {
			limits[t.Name] = int64(t.MemoryLimit)
		}
	}
	return limits
}

// startTenants makes the tenants: the default one, those of the file, and those that only users of the Redis protocol name.
func (a *App) startTenants() (err error) {
	if path := a.cfg.Redis.Users; path != "" && !a.cfg.RESP.IsZero() {
		if a.users, err = resp.ReadUsers(path); err != nil {
			return err
		}
	}
	names := map[string]bool{config.DefaultTenant: true}
	for _, t := range a.cfg.Tenants {
		names[t.Name] = true
	}
	for _, u := range a.users {
		names[u.Tenant] = true
	}
	limits := make(map[string]tenant.Limits)
	for name := range names {
		limits[name] = a.limitsOf(a.cfg.Tenant(name))
	}
	a.tenants = tenant.NewSet(limits, a.gate(len(names)))
	a.registry.MustRegister(tenantMetrics{a})
	a.warnOfMemory(names)
	a.warnOfFiles()
	return nil
}

func (a *App) limitsOf(t config.Tenant) tenant.Limits {
	return tenant.Limits{
		UIDs: t.AllowedUIDs, Connections: t.Connections, Rate: t.RequestsPerSecond, Waiters: t.Waiters,
		Unfinished: int64(a.cfg.Limits.Unfinished), Commands: int64(a.cfg.Redis.Unfinished), Unread: int64(a.cfg.Limits.Unread),
	}
}

// gate returns where tenants take turns at the processors. One tenant has nobody to take turns with. And where each change
// waits for the disk or for another host, processors are not what is scarce: those who wait do so together, which nobody should be kept from.
func (a *App) gate(tenants int) *tenant.Gate {
	if tenants < 2 || a.hosts != nil || a.cfg.Data != "" && a.cfg.Journal.Fsync == "always" {
		return nil
	}
	return tenant.NewGate(runtime.GOMAXPROCS(0))
}

// warnOfMemory says when one tenant's sessions could fill the memory of all.
func (a *App) warnOfMemory(names map[string]bool) {
	all := int64(a.cfg.Memory.Limit)
	if len(names) < 2 || all == 0 {
		return
	}
	own, sum := a.memoryLimits(), int64(0)
	for name := range names {
		limit, ok := own[name]
		if !ok {
			limit = int64(a.cfg.Memory.TenantLimit)
		}
		if limit == 0 {
			a.log.Warn("a tenant without a memory limit can fill the memory of all with sessions; set its memory_limit, or memory.tenant_limit",
				"tenant", name, "memory.limit", all)
			return
		}
		sum += limit
	}
	if sum > all {
		a.log.Warn("the tenants' memory limits are more than there is for all: one tenant's sessions can leave others less than their limit",
			"sum", sum, "memory.limit", all)
	}
}

// warnOfAdmin says when tenants can read on the admin pages what others do.
func (a *App) warnOfAdmin() {
	if a.cfg.Admin.Network == "tcp" && len(a.tenants.All()) > 1 {
		a.log.Warn("every user of this machine can read the admin pages, which show all tenants; make admin a Unix socket",
			"admin", a.cfg.Admin.String())
	}
}

// spareFiles is how many files the daemon has open beside connections, at most.
const spareFiles = 64

// warnOfFiles says when connections are allowed for which there are no file descriptors. Go's runtime has raised the soft
// limit to the hard one.
func (a *App) warnOfFiles() {
	need := a.cfg.Limits.Connections + spareFiles
	if !a.cfg.RESP.IsZero() {
		need += a.cfg.Redis.Connections
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil && limit.Cur < uint64(need) {
		a.log.Warn("more connections are allowed than files can be open; raise LimitNOFILE, or lower limits.connections or redis.connections",
			"files", limit.Cur, "needed", need)
	}
}

// tenantMetrics tells what each tenant takes. The labels are the names of the tenants of the configuration, and no others.
type tenantMetrics struct{ a *App }

var (
	tenantLabel       = []string{"tenant"}
	tenantConnections = prometheus.NewDesc("coatcheck_tenant_connections", "Open connections of a tenant, of both protocols.", tenantLabel, nil)
	tenantWaiters     = prometheus.NewDesc("coatcheck_tenant_waiters", "Requests of a tenant that wait.", tenantLabel, nil)
	tenantRequests    = prometheus.NewDesc("coatcheck_tenant_requests_total", "Requests of a tenant, of both protocols, refused ones included.", tenantLabel, nil)
	tenantRefused     = prometheus.NewDesc("coatcheck_tenant_refused_total", "What was refused to a tenant, by reason (uid, connections, rate, waiters, unfinished, unread).", []string{"tenant", "reason"}, nil)
	tenantMemory      = prometheus.NewDesc("coatcheck_tenant_memory_bytes", "Estimated memory of a tenant's entries.", tenantLabel, nil)
	tenantEvicted     = prometheus.NewDesc("coatcheck_tenant_values_evicted_total", "Values of a tenant evicted to make room.", tenantLabel, nil)
)

func (tenantMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{tenantConnections, tenantWaiters, tenantRequests, tenantRefused, tenantMemory, tenantEvicted} {
		ch <- d
	}
}

func (m tenantMetrics) Collect(ch chan<- prometheus.Metric) {
	for _, t := range m.a.tenants.All() {
		send := func(d *prometheus.Desc, kind prometheus.ValueType, n int64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, kind, float64(n), append([]string{t.Name}, labels...)...)
		}
		stats := m.a.statsOf(t.Name)
		send(tenantConnections, prometheus.GaugeValue, t.Connections.Used())
		send(tenantWaiters, prometheus.GaugeValue, t.Waiters.Used())
		send(tenantRequests, prometheus.CounterValue, t.Requests())
		send(tenantMemory, prometheus.GaugeValue, stats.Bytes)
		send(tenantEvicted, prometheus.CounterValue, stats.Evicted)
		for _, why := range tenant.Reasons() {
			send(tenantRefused, prometheus.CounterValue, t.Refused(why), why.String())
		}
	}
}
