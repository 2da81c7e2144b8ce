package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Hosts that are apart: each in a network namespace, on one bridge, which is in a namespace of its own. A namespace lives as long as a process
// that does nothing in it, so nothing is left behind.

// inside returns a command that runs in the host's namespace.
func (h *host) inside(command ...string) []string {
	if h.apart == nil {
		return command
	}
	return append([]string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", h.apart.pid()), "--"}, command...)
}

// separate makes the namespaces.
func (g *team) separate() {
	t := g.t
	t.Helper()
	if os.Getuid() != 0 {
		need(t, "network namespaces need root")
	}
	for _, program := range []string{"ip", "iptables", "nsenter", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			need(t, program+" is not installed: tools/install.sh test")
		}
	}
	bridge := g.namespace("bridge")
	t.Cleanup(bridge.kill)
	in := func(p *process, command ...string) {
		t.Helper()
		args := append([]string{fmt.Sprintf("--net=/proc/%d/ns/net", p.pid()), "--"}, command...)
		if out, err := exec.Command("nsenter", args...).CombinedOutput(); err != nil {
			need(t, fmt.Sprintf("network namespaces cannot be had: %s: %v: %s", strings.Join(command, " "), err, out))
		}
	}
	in(bridge, "ip", "link", "add", "switch0", "type", "bridge")
	in(bridge, "ip", "link", "set", "switch0", "up")
	for _, h := range g.hosts {
		h.apart = g.namespace(h.String())
		h.address = fmt.Sprintf("10.77.0.%d", h.index+1)
		port := fmt.Sprintf("port%d", h.index)
		in(bridge, "ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", fmt.Sprint(h.apart.pid()))
		in(bridge, "ip", "link", "set", port, "master", "switch0", "up")
		in(h.apart, "ip", "link", "set", "lo", "up")
		in(h.apart, "ip", "address", "add", h.address+"/24", "dev", "eth0")
		in(h.apart, "ip", "link", "set", "eth0", "up")
	}
}

// namespace starts a process that keeps a new network namespace.
func (g *team) namespace(name string) *process {
	t := g.t
	t.Helper()
	p, err := start(g.dir+"/namespaces.log", "unshare", "--net", "--", "sleep", "infinity")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, "the namespace of "+name+" is made", func() (bool, string) {
		select {
		case <-p.ended:
			need(t, "network namespaces cannot be had: "+tail(g.dir+"/namespaces.log"))
		default:
		}
		is, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", p.pid()))
		program, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.pid()))
		return err == nil && is != own && strings.TrimSpace(string(program)) == "sleep", fmt.Sprint(is, err)
	})
	return p
}

// filter changes the host's rules for what comes in.
func (h *host) filter(rule ...string) {
	t := h.team.t
	t.Helper()
	command := h.inside(append([]string{"iptables", "-w"}, rule...)...)
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(command, " "), err, out)
	}
}

// addresses returns those of hosts, as a rule has them. One rule for all makes a cut that is there at once: if a host were cut off from one peer after the
// other, it might acknowledge meanwhile what it could not copy to the first.
func addresses(hosts []*host) string {
	var all []string
	for _, h := range hosts {
		all = append(all, h.address)
	}
	return strings.Join(all, ",")
}

// deafen has hosts hear nothing of others.
func deafen(hosts, others []*host) {
	for _, h := range hosts {
		h.filter("-A", "INPUT", "-s", addresses(others), "-j", "DROP")
	}
}

// mute has others hear nothing of hosts.
func mute(hosts, others []*host) {
	for _, h := range hosts {
		h.filter("-A", "OUTPUT", "-d", addresses(others), "-j", "DROP")
	}
}

// heal undoes all cuts.
func (g *team) heal() {
	for _, h := range g.hosts {
		h.filter("-F", "INPUT")
		h.filter("-F", "OUTPUT")
	}
}
