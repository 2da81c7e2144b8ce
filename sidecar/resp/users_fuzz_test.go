package resp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzReadUsers: whatever the file of users holds, it is users of tenants or an error, and the error tells nothing of a hash.
func FuzzReadUsers(f *testing.F) {
	const hash = "$2a$04$abcdefghijklmnopqrstuuFHKkQ2K9zTbfPVVMbM4pcVH3NnAzOOu"
	f.Add("# shop\n\nalice:shop:" + hash + "\n bob:blog:" + hash)
	f.Add("alice:shop:" + hash + "\nalice:blog:" + hash)
	f.Add("alice:shop")
	f.Add("::" + hash)
	f.Add("alice:shop:" + strings.Repeat("x", 70_000))
	f.Fuzz(func(t *testing.T, content string) {
		path := filepath.Join(t.TempDir(), "users")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		users, err := ReadUsers(path)
		if (len(users) > 0) != (err == nil) {
			t.Fatalf("%d users and %v", len(users), err)
		}
		for name, u := range users {
			if name == "" || u.Tenant == "" || len(u.Hash) < 59 {
				t.Fatalf("user %q is of tenant %q with a hash of %d bytes", name, u.Tenant, len(u.Hash))
			}
		}
		for line := range strings.Lines(content) {
			_, hash, _ := strings.Cut(strings.TrimSpace(line), ":")
			const told = 16
			if _, hash, _ = strings.Cut(hash, ":"); err != nil && len(hash) >= told && strings.Contains(err.Error(), hash[:told]) {
				t.Fatalf("the error quotes a hash: %v", err)
			}
		}
	})
}
