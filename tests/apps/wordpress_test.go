package apps

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	wordpressCore    = "/usr/share/wordpress"
	wordpressHost    = "site.test"
	wordpressTheme   = "twentytwentythree"
	frontPageTripMax = 3
)

func TestWordPressWorksWithItsDaemonAndWithoutIt(t *testing.T) {
	db := startDatabase(t)
	for _, extension := range []bool{false, true} {
		name := "stream"
		if extension {
			name = "extension"
		}
		t.Run(name, func(t *testing.T) {
			w := openWordPress(t, db, "wordpress_"+name, extension)
			admin := w.visitor()
			w.install()
			w.logIn(admin)
			w.enableCache(admin)

			link := w.publish(admin, "The first post")
			w.comment(admin, link, "A remark of weight")
			w.wantOnPage("/", "The first post")
			w.wantOnPage(link, "A remark of weight")

			w.keepsTwentyOptionsChangedAtOnce()
			w.warmFrontPageTakesFewRoundTrips()
			w.buttonsOfThePageWork(admin)
			w.goesOnWithoutItsDaemon(admin)
			w.disableCache(admin)
		})
	}
}

func TestWordPressFlushOfOneSiteTouchesNoOtherSiteOfTheNetwork(t *testing.T) {
	db := startDatabase(t)
	w := openWordPress(t, db, "wordpress_network", false)
	admin := w.visitor()
	w.install()
	w.logIn(admin)
	w.enableCache(admin)
	w.php(filepath.Join(w.app, "make-network.php"))
	v := w.visitor()
	v.want("/?probe=flush", "flushed")
	v.want("/?probe=second-site", "2")
	v.want("/?probe=site", "1")
	v.want("/two/?probe=site", "2")

	for _, site := range []string{"", "/two"} {
		v.want(site+"/?probe=set&name=key&value=of"+url.QueryEscape(site), "set")
	}
	v.want("/two/?probe=update&name=blogname&value=Second", "updated")
	v.want("/two/?probe=flush", "flushed")
	v.want("/two/?probe=get&name=key", "false")
	v.want("/?probe=get&name=key", "'of'")
	v.want("/two/?probe=set&name=key&value=again", "set")
	v.want("/?probe=flush", "flushed")
	v.want("/?probe=get&name=key", "false")
	v.want("/two/?probe=get&name=key", "'again'")
	v.want("/two/?probe=option&name=blogname", "Second")
	v.want("/?probe=stale", "")
	v.want("/two/?probe=stale", "")
	for _, page := range []string{"/", "/two/"} {
		for range 3 {
			w.page(page)
		}
		if trips := w.requestsOf(func() { w.page(page) }); trips > frontPageTripMax+1 { // two spaces are read in one round trip
			t.Errorf("the warm page %s took %d requests", page, trips)
		}
	}
}

// wordpress is a site on which WordPress runs.
type wordpress struct {
	*site
	address string // of the front; the site's name has no port, because sites of a network must not
	content string // wp-content
}

func (w *wordpress) visitor() *visitor {
	v := w.site.visitor()
	v.client.Transport = &http.Transport{MaxIdleConnsPerHost: 64, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", w.address)
	}}
	return v
}

// database is a MariaDB of the test's own.
type database struct {
	socket string
}

// startDatabase starts a server without a network that keeps nothing longer than the test.
func startDatabase(t *testing.T) database {
	t.Helper()
	needStage(t)
	install, server := find("mariadb-install-db"), find("mariadbd")
	for what, missing := range map[string]bool{
		"WordPress (package wordpress)":              !exists(wordpressCore + "/wp-settings.php"),
		"its theme":                                  !exists(filepath.Join(wordpressCore, "wp-content/themes", wordpressTheme)),
		"MariaDB's server (mariadb-server-core)":     install == "" || server == "",
		"PHP's extension mysqli (package php-mysql)": exec.Command("php", "-r", "exit(extension_loaded('mysqli') ? 0 : 1);").Run() != nil,
	} {
		if missing && os.Getenv("CI") != "" {
			t.Fatal(what + " is not installed")
		} else if missing {
			t.Skip(what + " is not installed: run tools/install.sh test")
		}
	}
	dir, err := os.MkdirTemp(theStage.dir, "db.")
	must(t, err)
	must(t, os.Chmod(dir, 0o755))
	as := "--user="
	if w := theStage.worker; w != nil {
		must(t, os.Chown(dir, w.uid, w.gid))
		as += w.name
	}
	data := filepath.Join(dir, "data")
	out, err := exec.Command(install, "--no-defaults", as, "--datadir="+data, "--skip-test-db", "--skip-name-resolve",
		"--auth-root-authentication-method=normal", "--innodb-log-file-size=8M").CombinedOutput()
	if err != nil {
		t.Fatalf("make a database: %v\n%s", err, out)
	}
	db := database{socket: filepath.Join(dir, "db.sock")}
	p := start(t, filepath.Join(dir, "db.log"), os.Environ(), server, "--no-defaults", as, "--datadir="+data, "--socket="+db.socket,
		"--pid-file="+filepath.Join(dir, "db.pid"), "--skip-networking", "--skip-log-bin", "--innodb-flush-log-at-trx-commit=0",
		"--innodb-log-file-size=8M", "--innodb-buffer-pool-size=32M", "--performance-schema=off")
	t.Cleanup(p.end)
	eventually(t, 30*time.Second, "the database listens", func() (bool, string) {
		connection, err := net.Dial("unix", db.socket)
		if err != nil {
			return false, tail(p.log)
		}
		return connection.Close() == nil, ""
	})
	return db
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// openWordPress opens a site with WordPress and the plugin's files, as the plugin's README says, and an empty database.
func openWordPress(t *testing.T, db database, name string, extension bool) *wordpress {
	t.Helper()
	w := &wordpress{site: open(t, plan{
		app: "wordpress", extension: extension, workers: 8,
		env: map[string]string{"WORDPRESS_DATABASE": name, "WORDPRESS_DATABASE_SOCKET": db.socket},
	})}
	w.address, w.front.URL = w.front.Listener.Addr().String(), "http://"+wordpressHost
	public := filepath.Join(w.app, "public")
	w.content = filepath.Join(public, "wp-content")
	for _, copied := range [][2]string{
		{wordpressCore + "/wp-includes", "wp-includes"},
		{wordpressCore + "/wp-admin", "wp-admin"},
		{wordpressCore + "/wp-content/themes/" + wordpressTheme, "wp-content/themes/" + wordpressTheme},
		{filepath.Join(theStage.checkout, "composer/wordpress"), "wp-content/plugins/coatcheck"},
		{filepath.Join(theStage.checkout, "composer/client"), "wp-content/plugins/coatcheck/client"},
		{wordpressCore + "/index.php", "index.php"},
		{wordpressCore + "/wp-blog-header.php", "wp-blog-header.php"},
		{wordpressCore + "/wp-comments-post.php", "wp-comments-post.php"},
		{wordpressCore + "/wp-load.php", "wp-load.php"},
		{wordpressCore + "/wp-login.php", "wp-login.php"},
		{wordpressCore + "/wp-settings.php", "wp-settings.php"},
	} {
		copyTree(t, copied[0], filepath.Join(public, copied[1]))
	}
	w.makeWritable(w.content)
	w.makeWritable(public)
	w.php("-r", `(new mysqli("localhost", "root", "", "", 0, getenv("WORDPRESS_DATABASE_SOCKET")))->query("CREATE DATABASE " . getenv("WORDPRESS_DATABASE"));`)
	return w
}

// copyTree copies a file or a directory, and what links point to.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(to), 0o755))
	if out, err := exec.Command("cp", "-rL", from, to).CombinedOutput(); err != nil {
		t.Fatalf("copy %s: %v\n%s", from, err, out)
	}
}

// php runs a script on the command line, as the user of the workers.
func (w *wordpress) php(args ...string) string {
	w.t.Helper()
	cmd := exec.Command("php", args...)
	cmd.Env = append(os.Environ(), "COATCHECK_SOCKET="+w.socket, "WORDPRESS_HOST="+wordpressHost)
	for name, value := range w.plan.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	if err != nil || len(out) > 0 {
		w.t.Fatalf("php %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (w *wordpress) install() {
	w.t.Helper()
	body := w.post(w.visitor(), "/wp-admin/install.php?step=2", url.Values{
		"weblog_title": {"A site for tests"}, "user_name": {"admin"}, "admin_password": {"a long passphrase"},
		"admin_password2": {"a long passphrase"}, "pw_weak": {"on"}, "admin_email": {"admin@example.org"}, "blog_public": {"0"},
	})
	if !strings.Contains(body, "wp-login.php") {
		w.t.Fatalf("the installation ended with:\n%s\n%s", body, tail(w.pool.log))
	}
}

func (w *wordpress) logIn(v *visitor) {
	w.t.Helper()
	must(w.t, errOf(v.get("/wp-login.php"))) // sets the cookie that the form wants back
	w.post(v, "/wp-login.php", url.Values{"log": {"admin"}, "pwd": {"a long passphrase"}, "testcookie": {"1"}, "redirect_to": {"/wp-admin/index.php"}})
	if body := w.admin(v, "index.php"); !strings.Contains(body, "wp-admin-bar-my-account") {
		w.t.Fatalf("not logged in:\n%s", body)
	}
}

func errOf(_ string, err error) error { return err }

// admin returns a page of wp-admin.
func (w *wordpress) admin(v *visitor, path string) string {
	w.t.Helper()
	body, err := v.get("/wp-admin/" + path)
	must(w.t, err)
	return body
}

// post sends a form and returns the page that answers, or the one that it leads to.
func (w *wordpress) post(v *visitor, path string, form url.Values) string {
	w.t.Helper()
	response, err := v.client.PostForm(w.front.URL+path, form)
	must(w.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(w.t, err)
	if response.StatusCode != http.StatusOK {
		w.t.Fatalf("%s: status %d\n%s\n%s", path, response.StatusCode, body, tail(w.pool.log))
	}
	return string(body)
}

// page returns a page as an unknown visitor sees it.
func (w *wordpress) page(path string) string {
	w.t.Helper()
	body, err := w.visitor().get(path)
	must(w.t, err)
	return body
}

func (w *wordpress) wantOnPage(path, text string) {
	w.t.Helper()
	if body := w.page(path); !strings.Contains(body, text) {
		w.t.Fatalf("%s does not show %q:\n%s", path, text, body)
	}
}

const settingsPage = "/wp-admin/options-general.php?page=coatcheck"

// press presses a button of the plugin's page and returns what came of it.
func (w *wordpress) press(v *visitor, action string) string {
	w.t.Helper()
	body, err := v.get(settingsPage)
	must(w.t, err)
	form := regexp.MustCompile(`(?s)name="_wpnonce" value="([0-9a-f]+)"[^>]*>(?:<input[^>]*>){0,2}<input type="hidden" name="coatcheck_action" value="` + action + `"`)
	found := form.FindStringSubmatch(body)
	if found == nil {
		w.t.Fatalf("the page has no button %s:\n%s", action, body)
	}
	return w.outcome(w.post(v, settingsPage, url.Values{"_wpnonce": {found[1]}, "coatcheck_action": {action}}))
}

func (w *wordpress) outcome(body string) string {
	w.t.Helper()
	found := regexp.MustCompile(`(?s)id="coatcheck-outcome"><p>(.*?)</p>`).FindStringSubmatch(body)
	if found == nil {
		w.t.Fatalf("the page tells no outcome:\n%s", body)
	}
	return found[1]
}

func (w *wordpress) enableCache(v *visitor) {
	w.t.Helper()
	w.visitor().want("/?probe=info", "none")
	link := regexp.MustCompile(`plugins\.php\?action=activate&amp;plugin=coatcheck%2Fcoatcheck\.php[^"]*`).FindString(w.admin(v, "plugins.php"))
	if link == "" {
		w.t.Fatal("the plugin is not among the plugins")
	}
	w.admin(v, strings.ReplaceAll(link, "&amp;", "&"))
	if outcome := w.press(v, "enable"); !strings.Contains(outcome, "enabled") {
		w.t.Fatalf("the cache was not enabled: %s", outcome)
	}
	w.visitor().want("/?probe=info", `Coatcheck\WordPress\ObjectCache`)
}

func (w *wordpress) disableCache(v *visitor) {
	w.t.Helper()
	if outcome := w.press(v, "disable"); !strings.Contains(outcome, "disabled") {
		w.t.Fatalf("the cache was not disabled: %s", outcome)
	}
	w.visitor().want("/?probe=info", "none")
	if exists(filepath.Join(w.content, "object-cache.php")) {
		w.t.Error("the drop-in is still there")
	}
}

// publish writes a post by the REST interface and returns its path.
func (w *wordpress) publish(v *visitor, title string) string {
	w.t.Helper()
	nonce := w.admin(v, "admin-ajax.php?action=rest-nonce")
	body := bytes.NewReader([]byte(url.Values{"title": {title}, "status": {"publish"}, "content": {"Text of " + title}}.Encode()))
	request, err := http.NewRequest(http.MethodPost, w.front.URL+"/index.php?rest_route=/wp/v2/posts", body)
	must(w.t, err)
	request.Header.Set("X-WP-Nonce", nonce)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := v.client.Do(request)
	must(w.t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	must(w.t, err)
	id := regexp.MustCompile(`^\{"id":(\d+)`).FindSubmatch(answer)
	if response.StatusCode != http.StatusCreated || id == nil {
		w.t.Fatalf("publish %q: status %d\n%s", title, response.StatusCode, answer)
	}
	return "/?p=" + string(id[1])
}

func (w *wordpress) comment(v *visitor, post, text string) {
	w.t.Helper()
	w.page(post) // which is in the cache from here on, without the comment
	id := strings.TrimPrefix(post, "/?p=")
	w.post(v, "/wp-comments-post.php", url.Values{"comment": {text}, "comment_post_ID": {id}, "comment_parent": {"0"}})
}

// keepsTwentyOptionsChangedAtOnce changes options that exist and creates others, each in a request of its own.
func (w *wordpress) keepsTwentyOptionsChangedAtOnce() {
	w.t.Helper()
	const options = 20
	v := w.visitor()
	for i := range options / 2 {
		v.want(fmt.Sprintf("/?probe=update&name=probe_%d&value=old", i), "updated")
	}
	for round := range 2 {
		var wg sync.WaitGroup
		for i := range options {
			wg.Go(func() {
				path := fmt.Sprintf("/?probe=update&name=probe_%d&value=round%d", i, round)
				if body, err := v.get(path); err != nil || body != "updated" {
					w.t.Errorf("%s: %q, %v", path, body, err)
				}
			})
		}
		wg.Wait()
		v.want("/?probe=cached&name=probe_", strings.TrimSpace(strings.Repeat(fmt.Sprintf("round%d ", round), options)))
		v.want("/?probe=stale", "")
	}
}

func (w *wordpress) warmFrontPageTakesFewRoundTrips() {
	w.t.Helper()
	for range 4 {
		w.page("/")
	}
	for range 5 {
		if trips := w.requestsOf(func() { w.page("/") }); trips < 1 || trips > frontPageTripMax {
			w.t.Errorf("the warm front page took %d requests to the daemon, want 1 to %d", trips, frontPageTripMax)
		}
	}
}

// requestsOf returns how many requests the daemon got meanwhile. A round trip has one or more.
func (w *wordpress) requestsOf(act func()) int {
	w.t.Helper()
	before := w.requests()
	act()
	return w.requests() - before
}

func (w *wordpress) requests() int {
	w.t.Helper()
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", w.adminSocket())
	}, DisableKeepAlives: true}}
	response, err := client.Get("http://daemon/metrics")
	must(w.t, err)
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	must(w.t, err)
	total := 0
	for _, sample := range regexp.MustCompile(`(?m)^coatcheck_requests_total\{[^}]*method="kv\.[^}]*\} (\d+)$`).FindAllSubmatch(page, -1) {
		count, err := strconv.Atoi(string(sample[1]))
		must(w.t, err)
		total += count
	}
	return total
}

func (w *wordpress) buttonsOfThePageWork(admin *visitor) {
	w.t.Helper()
	if outcome := w.press(admin, "test"); !strings.Contains(outcome, "written and read") {
		w.t.Errorf("the test of the connection says: %s", outcome)
	}
	v := w.visitor()
	v.want("/?probe=set&name=key&value=x", "set")
	v.want("/?probe=get&name=key", "'x'")
	if outcome := w.press(admin, "flush"); !strings.Contains(outcome, "empty") {
		w.t.Errorf("the flush says: %s", outcome)
	}
	v.want("/?probe=get&name=key", "false")
	v.want("/?probe=set&name=key&value=x", "set")
	for who, visitor := range map[string]*visitor{"a visitor": w.visitor(), "the administrator without a nonce": admin} {
		response, err := visitor.client.PostForm(w.front.URL+settingsPage, url.Values{"coatcheck_action": {"flush"}, "_wpnonce": {"0123456789"}})
		must(w.t, err)
		must(w.t, response.Body.Close())
		if body, err := v.get("/?probe=get&name=key"); err != nil || body != "'x'" {
			w.t.Errorf("%s flushed the cache: %s, %v", who, body, err)
		}
	}
	if bar := w.admin(admin, "index.php"); !strings.Contains(bar, "wp-admin-bar-coatcheck") {
		w.t.Error("the admin bar tells nothing of the cache")
	}
}

func (w *wordpress) goesOnWithoutItsDaemon(admin *visitor) {
	w.t.Helper()
	v := w.visitor()
	v.want("/?probe=update&name=probe_0&value=before", "updated")
	w.daemon.kill()
	w.wantOnPage("/", "The first post")
	w.publish(admin, "Written without a daemon")
	w.wantOnPage("/", "Written without a daemon")
	v.want("/?probe=update&name=probe_0&value=meanwhile", "updated")
	v.want("/?probe=update&name=probe_new&value=meanwhile", "updated")
	w.startDaemon()
	w.wantOnPage("/", "Written without a daemon")
	v.want("/?probe=option&name=probe_0", "meanwhile")
	v.want("/?probe=option&name=probe_new", "meanwhile")
	v.want("/?probe=stale", "")
	w.warmFrontPageTakesFewRoundTrips()
}
