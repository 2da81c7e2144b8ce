package owner

// Metrics tell how a Seat fares.
type Metrics struct{}
