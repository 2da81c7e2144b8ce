package journal

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// manyBytes is the size of a journal from which on huge pages are worth their while.
const manyBytes = 64 << 20

// useHugePages has the kernel give the memory that the replay of size bytes is about to fill in pages of 2 MiB instead of 4 KiB, where it
// does so for those who ask. Entering them one by one can take more time than all else: on a virtual machine, 20 µs each was measured.
//
// The runtime cannot be told, but it uses again what it once had: so it is given that much, never touched, for a moment.
func useHugePages(size int64) {
	if size < manyBytes {
		return
	}
	room := make([]byte, size+size/2)      // entries take more than their records
	unix.Madvise(room, unix.MADV_HUGEPAGE) // a kernel without them does as it always did
	runtime.KeepAlive(room)
	room = nil
	runtime.GC()
}
