package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// maxGreeting bounds the body of a greeting, and of a notice.
const maxGreeting = minFrame

// greeting is a hello or a welcome: who speaks, and who is in the cluster as far as they know.
type greeting struct {
	ID       string `json:"id"`
	Boot     string `json:"boot"`
	Name     string `json:"name"`
	Addr     string `json:"addr"`
	Gossip   string `json:"gossip"`
	MaxFrame int    `json:"max_frame"`
	Roster   roster `json:"roster"`
}

// errStranger is returned when the peer does not let this host in.
var errStranger = errors.New("the peer refuses this host")

func (c *Cluster) greeting() greeting {
	s := &c.set.self
	return greeting{s.ID, s.Boot, s.Name, s.Addr, s.gossip, c.cfg.MaxFrame, c.set.roster(c.cfg.Now())}
}

func (g greeting) encode() []byte {
	b, err := json.Marshal(g)
	if err != nil {
		panic("cluster: encode a greeting: " + err.Error()) // strings, numbers and times always can be
	}
	return b
}

// decodeGreeting reads a greeting of a peer whose certificate is for node.
func decodeGreeting(b []byte, node string) (g greeting, err error) {
	if err := json.Unmarshal(b, &g); err != nil {
		return g, errors.New("the greeting cannot be read")
	}
	if err := checkMember(g.ID, g.Boot, g.Name, g.Addr, g.Gossip); err != nil {
		return g, err
	}
	if g.Name != node {
		return g, fmt.Errorf("the peer calls itself %s, and its certificate is for %s", g.Name, node)
	}
	if g.MaxFrame < minFrame || g.MaxFrame > maxFrame {
		return g, fmt.Errorf("the peer's largest frame is %d bytes", g.MaxFrame)
	}
	return g, g.Roster.check()
}

// readGreeting reads a frame of a kind and the greeting in it.
func (c *conn) readGreeting(want kind, node string) error {
	f, err := readFrame(c.in, maxGreeting)
	switch {
	case err != nil:
		return err
	case f.kind == stranger:
		return fmt.Errorf("%w: %.500q", errStranger, f.body)
	case f.kind != want:
		return fmt.Errorf("%w: another kind than a greeting", errFrame)
	}
	c.peer, err = decodeGreeting(f.body, node)
	return err
}

// introduce is the asker's side of a connection's beginning: hello, and the welcome of the member with an id.
func (c *conn) introduce(own greeting, id, node string, timeout time.Duration) error {
	c.tls.NetConn().SetDeadline(time.Now().Add(timeout))
	if err := c.send(frame{kind: hello, body: own.encode()}); err != nil {
		return err
	}
	if err := c.readGreeting(welcome, node); err != nil {
		return err
	}
	if c.peer.ID != id {
		return fmt.Errorf("node %s answers there", c.peer.ID)
	}
	c.tls.NetConn().SetDeadline(time.Time{})
	return nil
}
