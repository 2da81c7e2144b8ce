//go:build !linux

package fpm

import "net"

// canSeeUnread says that ready can answer true on this system.
const canSeeUnread = false

// ready reports false: how much the peer has not read yet is not known here.
func ready(net.Conn) bool { return false }
