package resp

import (
	"bytes"
	"strings"
)

// maxScript is the length of the longest script that is looked at: no known one comes near.
const maxScript = 4 << 10

// normalLua returns a script's normal form: its tokens with one blank between them, without comments and
// semicolons, its strings in double quotes, and the names of commands (the first argument of redis.call) in lower case.
// Two scripts of one normal form do the same. It returns false for what it does not understand, which no known script needs: long
// strings and comments, escapes, and blanks or quotes in strings.
func normalLua(text []byte) (normal string, ok bool) {
	if len(text) > maxScript {
		return "", false
	}
	var tokens []string
	for {
		var token string
		token, text, ok = nextToken(text)
		switch {
		case !ok:
			return "", false
		case token == "":
			return strings.Join(tokens, " "), true
		case token == ";":
			continue
		case token[0] == '"' && callsRedis(tokens):
			token = strings.ToLower(token)
		}
		tokens = append(tokens, token)
	}
}

// callsRedis says whether the tokens end with redis.call(.
func callsRedis(tokens []string) bool {
	n := len(tokens)
	return n >= 4 && tokens[n-1] == "(" && tokens[n-2] == "call" && tokens[n-3] == "." && tokens[n-4] == "redis"
}

// nextToken returns the first token of a script, empty at its end, and what follows it.
func nextToken(text []byte) (token string, rest []byte, ok bool) {
	text = bytes.TrimLeft(text, " \t\r\n\v\f")
	if len(text) == 0 {
		return "", nil, true
	}
	switch b := text[0]; {
	case bytes.HasPrefix(text, []byte("--")):
		return comment(text)
	case b == '"' || b == '\'':
		return quotedString(text)
	case isWordByte(b):
		end := 1
		for end < len(text) && isWordByte(text[end]) {
			end++
		}
		return string(text[:end]), text[end:], true
	case bytes.HasPrefix(text, []byte("==")):
		return "==", text[2:], true
	case strings.IndexByte("().[]<>,;", b) >= 0:
		return string(text[:1]), text[1:], true
	}
	return "", nil, false
}

func isWordByte(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

// comment skips a comment that ends with its line.
func comment(text []byte) (token string, rest []byte, ok bool) {
	if bytes.HasPrefix(text, []byte("--[")) {
		return "", nil, false
	}
	_, rest, _ = bytes.Cut(text, []byte{'\n'})
	return nextToken(rest)
}

// quotedString reads a string that is a word.
func quotedString(text []byte) (token string, rest []byte, ok bool) {
	end := bytes.IndexByte(text[1:], text[0])
	if end < 0 {
		return "", nil, false
	}
	word := text[1 : 1+end]
	for _, b := range word {
		if !isWordByte(b) {
			return "", nil, false
		}
	}
	return `"` + string(word) + `"`, text[end+2:], true
}
