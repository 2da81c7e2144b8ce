package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	nodeFile    = "cluster-node"
	membersFile = "cluster-members"

	nodeHead    = "coatcheck node 1 "
	membersHead = "coatcheck members 1 "
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// disk is a directory for the node id and the member set. Its files have a head with their format's version and a checksum of the
// rest. The zero value keeps nothing.
type disk struct{ dir string }

// kept is the content of the file of members.
type kept struct {
	Cluster string `json:"cluster"`
	roster
}

// loadNode returns the node id, which it makes when there is none.
func (d disk) loadNode() (string, error) {
	if d.dir == "" {
		return newID(), nil
	}
	b, err := d.read(nodeFile, nodeHead, nodeAdvice)
	if errors.Is(err, fs.ErrNotExist) {
		id := newID()
		return id, d.write(nodeFile, nodeHead, []byte(id+"\n"))
	}
	if err != nil {
		return "", err
	}
	id := string(bytes.TrimSpace(b))
	if !validID(id) {
		return "", d.damaged(nodeFile, errors.New("there is no node id in it"), nodeAdvice)
	}
	return id, nil
}

const (
	nodeAdvice    = "delete it to have a new node id, and have the other hosts forget the old one"
	membersAdvice = "delete it when the other hosts are up: they tell the member set to whoever joins. While it is missing, cluster.expect alone says what a majority is"
)

// loadMembers returns the member set as it was kept.
func (d disk) loadMembers(cluster string) (roster, error) {
	if d.dir == "" {
		return roster{}, nil
	}
	b, err := d.read(membersFile, membersHead, membersAdvice)
	if errors.Is(err, fs.ErrNotExist) {
		return roster{}, nil
	}
	if err != nil {
		return roster{}, err
	}
	return d.decodeMembers(b, cluster)
}

// decodeMembers reads the content of the file.
func (d disk) decodeMembers(b []byte, cluster string) (roster, error) {
	var k kept
	if err := json.Unmarshal(b, &k); err != nil {
		return roster{}, d.damaged(membersFile, err, membersAdvice)
	}
	if err := k.check(); err != nil {
		return roster{}, d.damaged(membersFile, err, membersAdvice)
	}
	if k.Cluster != cluster {
		return roster{}, fmt.Errorf("%s belongs to cluster %q, and this host is to be in %q: give it another data directory, or delete the file",
			d.path(membersFile), k.Cluster, cluster)
	}
	return k.roster, nil
}

// saveMembers returns when the set is on the disk.
func (d disk) saveMembers(cluster string, r roster) error {
	if d.dir == "" {
		return nil
	}
	b, err := json.MarshalIndent(kept{cluster, r}, "", "  ")
	if err != nil {
		return fmt.Errorf("keep the member set: %w", err)
	}
	return d.write(membersFile, membersHead, append(b, '\n'))
}

func (d disk) path(name string) string { return filepath.Join(d.dir, name) }

func (d disk) damaged(name string, what error, advice string) error {
	return fmt.Errorf("%s is damaged (%w): %s", d.path(name), what, advice)
}

// read returns what follows a file's head, when the checksum is right.
func (d disk) read(name, head, advice string) ([]byte, error) {
	b, err := os.ReadFile(d.path(name))
	if err != nil {
		return nil, err
	}
	line, content, _ := bytes.Cut(b, []byte("\n"))
	sum, ok := bytes.CutPrefix(line, []byte(head))
	if !ok {
		return nil, d.damaged(name, fmt.Errorf("it does not begin with %q", head), advice)
	}
	if string(sum) != checksum(content) {
		return nil, d.damaged(name, errors.New("its checksum is wrong"), advice)
	}
	return content, nil
}

func checksum(b []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(b, castagnoli)) }

// write puts a file in place whole or not at all.
func (d disk) write(name, head string, content []byte) error {
	if err := d.replace(name, append([]byte(head+checksum(content)+"\n"), content...)); err != nil {
		return fmt.Errorf("write %s: %w", d.path(name), err)
	}
	return nil
}

func (d disk) replace(name string, b []byte) error {
	f, err := os.CreateTemp(d.dir, name+".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails when it has its name
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), d.path(name)); err != nil {
		return err
	}
	return d.sync()
}

// sync has the directory's names on the disk.
func (d disk) sync() error {
	f, err := os.Open(d.dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
