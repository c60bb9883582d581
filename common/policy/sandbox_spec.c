/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox_spec.h"

#include <stddef.h>
#include <stdlib.h>

#include "../base/must.h"
#include "format.h"

enum field { FIELD_TEXT, FIELD_LIST, FIELD_NUMBER };
#define AT(member) offsetof(struct sandbox_spec, member)
static const struct {
	const char *key;
	enum field field;
	size_t at;
} fields[] = {
	{ "isolation", FIELD_TEXT, AT(isolation) },
	{ "on_misuse", FIELD_TEXT, AT(on_misuse) },
	{ "on_gateway_loss", FIELD_TEXT, AT(on_gateway_loss) },
	{ "require", FIELD_LIST, AT(require) },
	{ "filesystem.root", FIELD_TEXT, AT(root) },
	{ "filesystem.home", FIELD_TEXT, AT(home) },
	{ "filesystem.write", FIELD_LIST, AT(write) },
	{ "filesystem.read", FIELD_LIST, AT(read) },
	{ "filesystem.hide", FIELD_LIST, AT(hide) },
	{ "filesystem.protect", FIELD_LIST, AT(protect) },
	{ "filesystem.scratch", FIELD_NUMBER, AT(scratch) },
	{ "process.user", FIELD_TEXT, AT(user) },
	{ "process.environment.keep", FIELD_LIST, AT(keep) },
	{ "process.environment.set.name", FIELD_LIST, AT(set_name) },
	{ "process.environment.set.value", FIELD_LIST, AT(set_value) },
	{ "resources.memory", FIELD_NUMBER, AT(memory) },
	{ "resources.cpus", FIELD_NUMBER, AT(cpus_milli) },
	{ "resources.processes", FIELD_NUMBER, AT(processes) },
	{ "resources.open_files", FIELD_NUMBER, AT(open_files) },
	{ "resources.wall_time", FIELD_NUMBER, AT(wall_ms) },
	{ "resources.idle_time", FIELD_NUMBER, AT(idle_ms) },
};

static bool take(struct sandbox_spec *o, struct str key, struct str value)
{
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		void *at = (char *)o + fields[i].at;
		struct str_list *list = at;
		struct str *text = at;

		if (!str_eq(key, str_of(fields[i].key)))
			continue;
		switch (fields[i].field) {
		case FIELD_TEXT:
			if (text->p != NULL)
				return false;
			*text = value;
			return true;
		case FIELD_LIST:
			if (list->n == SPEC_LIST_MAX)
				return false;
			list->s[list->n++] = value;
			return true;
		default:
			return str_u64(value, UINT64_MAX, at);
		}
	}
	return false; /* what this version does not know may be a restriction */
}

bool sandbox_value_load(struct str v, struct sandbox_spec *o)
{
	struct cursor c = cursor_on(v);

	memset(o, 0, sizeof(*o));
	for (uint32_t n = get_u32(&c); n > 0 && !c.bad; n--) {
		struct str key = get_str(&c), value = get_str(&c);

		if (c.bad || (value.n && memchr(value.p, 0, value.n) != NULL) || !take(o, key, value))
			return false;
	}
	return !c.bad && c.at == c.n && o->set_name.n == o->set_value.n;
}

bool sandbox_value_check(struct str v)
{
	struct sandbox_spec *o = must_calloc(1, sizeof(*o));
	bool ok = sandbox_value_load(v, o);

	free(o);
	return ok;
}
