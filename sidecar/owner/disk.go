package owner

// Disk keeps what a Seat must not forget.
type Disk interface {
	Load() ([]byte, error)
	Save(b []byte) error
}
