package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// report is the outcome of a run, as it is printed and kept.
type report struct {
	Command    string      `json:"command"`
	Began      time.Time   `json:"began"`
	Took       string      `json:"took"`
	Machine    []string    `json:"machine"`
	LoadBefore string      `json:"load_before"`
	LoadAfter  string      `json:"load_after"`
	Contenders []contender `json:"contenders,omitempty"`
	Tables     []*table    `json:"tables"`
	Aims       []aim       `json:"aims,omitempty"`
}

// table is one measurement.
type table struct {
	Title    string `json:"title"`
	What     string `json:"what"`
	Command  string `json:"command"`
	Figure   string `json:"figure"`   // what is compared, with its unit
	Baseline string `json:"baseline"` // the contender that the ratios are to
	Lost     string `json:"lost"`     // what counts as lost
	Rows     []row  `json:"rows"`

	aim func(*table) aim // what we set out to reach, if we did
}

// row is one contender in a table.
type row struct {
	Name   string    `json:"name"`
	Median float64   `json:"median"` // of the rounds' figures
	Ratio  float64   `json:"ratio"`  // to the baseline: the median of the rounds' ratios
	P50    float64   `json:"p50_us"`
	P99    float64   `json:"p99_us"`
	Done   int       `json:"done"`
	Failed int       `json:"failed"`
	Lost   int       `json:"lost"`
	Rounds []float64 `json:"rounds"`
}

// aim is what we set out to reach.
type aim struct {
	Text     string  `json:"text"`
	Measured float64 `json:"measured"`
	Met      bool    `json:"met"`
}

// newTable completes t with a row for each contender.
func newTable(all []series, t table) *table {
	baseline := &all[0]
	for i := range all {
		if all[i].contender.Name == t.Baseline {
			baseline = &all[i]
		}
	}
	for i := range all {
		s := &all[i]
		r := row{Name: s.contender.Name, Rounds: s.figures(), Ratio: pairedRatio(s, baseline)}
		r.Median = median(r.Rounds)
		var times []time.Duration
		for _, sample := range s.samples {
			times = append(times, sample.times...)
			r.Done += sample.done
			r.Failed += sample.failed
			r.Lost += sample.lost
		}
		r.P50, r.P99 = micro(median(times)), micro(quantile(times, 0.99))
		t.Rows = append(t.Rows, r)
	}
	return &t
}

// row returns a contender's row.
func (t *table) row(name string) row {
	for _, r := range t.Rows {
		if r.Name == name {
			return r
		}
	}
	return row{}
}

func newReport(ctx context.Context, m *machine) *report {
	r := &report{
		Command:    m.command(),
		Began:      time.Now(),
		Machine:    describe(ctx, m),
		LoadBefore: loadAverage(),
	}
	if m.suite == "sessions" {
		r.Contenders = m.contenders
	}
	return r
}

// finish completes the report when all tables are there.
func (r *report) finish() {
	r.Took = time.Since(r.Began).Round(time.Second).String()
	r.LoadAfter = loadAverage()
	for _, t := range r.Tables {
		if t.aim != nil {
			r.Aims = append(r.Aims, t.aim(t))
		}
	}
}

func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "%s\n%s, %s; load average before %s, after %s\n", r.Command, r.Began.Format(time.DateTime), r.Took, r.LoadBefore, r.LoadAfter)
	for _, line := range r.Machine {
		fmt.Fprintln(w, line)
	}
	for _, t := range r.Tables {
		t.print(w)
	}
	if len(r.Aims) > 0 {
		fmt.Fprintln(w, "\naims")
	}
	for _, a := range r.Aims {
		met := "missed"
		if a.Met {
			met = "met"
		}
		fmt.Fprintf(w, "  %-6s  %s: %.3g\n", met, a.Text, a.Measured)
	}
	if len(r.Contenders) > 0 {
		fmt.Fprintln(w, "\nsettings")
	}
	for _, c := range r.Contenders {
		fmt.Fprintf(w, "  %s: %s\n", c.Name, strings.Join(c.Settings, " "))
	}
}

func (t *table) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s: %s\n  %s\n", t.Title, t.What, t.Command)
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "  \t%s\tratio to %s\tp50 ms\tp99 ms\tdone\tfailed\t%s\t\n", t.Figure, t.Baseline, t.Lost)
	for _, r := range t.Rows {
		fmt.Fprintf(tw, "  %s\t%.1f\t%.2f\t%s\t%s\t%d\t%d\t%d\t\n",
			r.Name, r.Median, r.Ratio, milliseconds(r.P50), milliseconds(r.P99), r.Done, r.Failed, r.Lost)
	}
	tw.Flush() //nolint:errcheck // w is the terminal
}

// milliseconds shows a number of microseconds, if any were measured.
func milliseconds(us float64) string {
	if us == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", us/1e3)
}

// save writes the report as JSON.
func (r *report) save(file string) error {
	encoded, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, append(encoded, '\n'), 0o600)
}

// describe names the machine and the versions of all that is measured.
func describe(ctx context.Context, m *machine) []string {
	lines := []string{fmt.Sprintf("%d x %s, Linux %s, %s", runtime.NumCPU(), processor(), release(), runtime.Version())}
	for _, command := range [][]string{
		{m.php, "-c", filepath.Join(m.dir, "php.ini"), "-r", "printf('PHP %s, phpredis %s, memcached extension %s', PHP_VERSION, phpversion('redis'), phpversion('memcached'));"},
		{"redis-server", "--version"},
		{"memcached", "--version"},
		{filepath.Join(m.root, "bin/coatcheck"), "--version"},
	} {
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Env = environment()
		out, err := cmd.Output()
		if err != nil {
			out = fmt.Appendf(nil, "%s: %v", filepath.Base(command[0]), err)
		}
		lines = append(lines, strings.TrimSpace(string(out)))
	}
	return lines
}

func processor() string {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, value, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func release() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return runtime.GOOS
	}
	return strings.TrimSpace(string(text))
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	one, _, _ := strings.Cut(string(text), " ")
	return one
}
