package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// A setting is one field of Config, or of a Tenant in it, and what its tags say.
type setting struct {
	key    string // name in the file, with its section: "lock.lease"
	tenant string // whose it is; empty: the daemon's
	index  []int  // of the field in Config or Tenant, for reflect.Value.FieldByIndex
	kind   kind
	tag    reflect.StructTag
}

// settings are all settings in the order of their fields. It is never changed.
var settings = settingsOf(reflect.TypeFor[Config](), "", nil)

// tenantSettings are the settings of one tenant. It is never changed.
var tenantSettings = settingsOf(reflect.TypeFor[Tenant](), "", nil)

func settingsOf(section reflect.Type, prefix string, index []int) []setting {
	var all []setting
	for i := range section.NumField() {
		field := section.Field(i)
		if field.Tag.Get("key") == "" || field.Type == reflect.TypeFor[[]Tenant]() {
			continue
		}
		key := prefix + field.Tag.Get("key")
		at := append(append([]int(nil), index...), i)
		if kind, ok := kindOf(field.Type); ok {
			all = append(all, setting{key: key, index: at, kind: kind, tag: field.Tag})
		} else {
			all = append(all, settingsOf(field.Type, key+".", at)...)
		}
	}
	return all
}

// settingByKey returns the setting of that name. The name of a flag is one too: log-level.
func settingByKey(key string) (setting, bool) {
	for _, s := range settings {
		if key == s.key || key == s.flag() && key != "" {
			return s, true
		}
	}
	names := strings.Split(key, ".")
	if len(names) != 3 || names[0] != tenants {
		return setting{}, false
	}
	for _, s := range settingsOfTenant(names[1]) {
		if s.key == key {
			return s, true
		}
	}
	return setting{}, false
}

// tenants is the section whose tables are the tenants.
const tenants = "tenants"

// settingsOfTenant returns the settings of the named tenant.
func settingsOfTenant(name string) []setting {
	own := slices.Clone(tenantSettings)
	for i := range own {
		own[i].key = tenants + "." + name + "." + own[i].key
		own[i].tenant = name
	}
	return own
}

// section returns the section of the setting; top-level settings have the empty one.
func (s setting) section() string { return s.key[:max(strings.LastIndexByte(s.key, '.'), 0)] }

// name returns the key within its section.
func (s setting) name() string {
	return s.key[strings.LastIndexByte(s.key, '.')+1:]
}

// variable returns the name of the environment variable.
func (s setting) variable() string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(s.key, ".", "_"))
}

// flag returns the name of the flag without its dashes; empty when the setting has none.
func (s setting) flag() string {
	if s.tag.Get("flag") == "" {
		return ""
	}
	return strings.ReplaceAll(s.key, "_", "-")
}

// initial returns the default as one would write it in a variable.
func (s setting) initial() string { return s.tag.Get("default") }

// initialValue returns the default.
func (s setting) initialValue() any {
	value, err := s.kind.parse(s.initial())
	if err != nil {
		panic(fmt.Sprintf("config: default of %s: %v", s.key, err))
	}
	return value
}

// in returns the field of c, which can be set through it. A tenant that is not there is made.
func (s setting) in(c *Config) reflect.Value {
	if s.tenant != "" {
		return reflect.ValueOf(c.tenant(s.tenant)).Elem().FieldByIndex(s.index)
	}
	return reflect.ValueOf(c).Elem().FieldByIndex(s.index)
}

// tenant returns the named tenant, and makes it when it is missing.
func (c *Config) tenant(name string) *Tenant {
	for i := range c.Tenants {
		if c.Tenants[i].Name == name {
			return &c.Tenants[i]
		}
	}
	c.Tenants = append(c.Tenants, newTenant(name))
	return &c.Tenants[len(c.Tenants)-1]
}

// newTenant returns a tenant to which nothing was said.
func newTenant(name string) Tenant {
	t := Tenant{Name: name}
	for _, s := range tenantSettings {
		reflect.ValueOf(&t).Elem().FieldByIndex(s.index).Set(reflect.ValueOf(s.initialValue()))
	}
	return t
}

// allowed says in words which values are allowed.
func (s setting) allowed() string {
	switch {
	case s.tag.Get("later") != "":
		return "empty"
	case s.tag.Get("allow") != "":
		return s.tag.Get("allow")
	case s.tag.Get("oneof") != "":
		return "one of " + strings.Join(strings.Fields(s.tag.Get("oneof")), ", ")
	case s.tag.Get("accept") != "":
		return acceptedForms(s.tag.Get("accept"))
	case s.tag.Get("min") != "":
		return fmt.Sprintf("%s from %s to %s", s.kind.noun, s.tag.Get("min"), s.tag.Get("max"))
	}
	return s.kind.noun
}

// complaint says what is wrong with the value by itself, if anything is.
func (s setting) complaint(value reflect.Value) (text string, wrong bool) {
	if later := s.tag.Get("later"); later != "" {
		return later, !value.IsZero()
	}
	if words := s.tag.Get("oneof"); words != "" {
		return "unknown word", !slices.Contains(strings.Fields(words), value.String())
	}
	if forms := s.tag.Get("accept"); forms != "" {
		return value.Interface().(Addr).complaint(forms)
	}
	if s.tag.Get("min") != "" {
		return "out of range", value.Int() < s.bound("min") || value.Int() > s.bound("max")
	}
	return "", false
}

// bound returns the limit that a tag gives, as the number behind the field's type.
func (s setting) bound(tag string) int64 {
	limit, err := s.kind.parse(s.tag.Get(tag))
	if err != nil {
		panic(fmt.Sprintf("config: %s of %s: %v", tag, s.key, err))
	}
	return reflect.ValueOf(limit).Int()
}
