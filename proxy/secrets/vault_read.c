/* SPDX-License-Identifier: Apache-2.0 */
/* One secret of Vault. The commonest mistake is a path of the other KV version; Vault says 404 or 403 to it, we say what to write. */
#include <stdio.h>
#include <stdlib.h>

#include "../../common/base/must.h"
#include "vault.h"

struct vault_read {
	struct vault_op *op;
	struct vault_session *s;
	bool dynamic;
	char *path, *field;
	int status;
	char cause[VAULT_CAUSE_MAX];
	vault_read_fn *fn;
	void *arg;
};

static void end(struct vault_read *r)
{
	vault_cancel(r->op);
	free(r->path);
	free(r->field);
	free(r);
}

void vault_read_cancel(struct vault_read *r)
{
	if (r != NULL)
		end(r);
}

static void fail(struct vault_read *r, bool denied, const char *cause)
{
	struct vault_value a = { .cause = cause, .denied = denied, .lease = "" };

	r->fn(r->arg, &a);
	end(r);
}

/* --- what an answer holds ------------------------------------------------------------------------------------------ */

static struct secret *value_of(json_t *j, char cause[VAULT_CAUSE_MAX], const char *field)
{
	const char *s = json_string_value(j);
	struct secret *v = NULL;
	char *text;

	if (s != NULL) {
		v = secret_new(s, json_string_length(j));
	} else if ((text = json_dumps(j, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS)) != NULL) {
		v = secret_new(text, strlen(text));
		explicit_bzero(text, strlen(text));
		free(text);
	}
	if (v == NULL)
		snprintf(cause, VAULT_CAUSE_MAX, "the field %s is longer than %u octets", field, SECRET_MAX);
	return v;
}

/* Names of fields are no secret, and help. */
static void name_fields(json_t *data, char *out, size_t cap)
{
	const char *key;
	json_t *v;
	size_t n = 0;

	out[0] = 0;
	json_object_foreach(data, key, v)
	{
		int k = snprintf(out + n, cap - n, "%s%.40s", n ? ", " : "", key);

		if (k < 0 || (size_t)k >= cap - n)
			break;
		n += (size_t)k;
	}
	for (char *p = out; *p; p++)
		if (*p < 0x20 || *p > 0x7e)
			*p = '?';
}

struct secret *vault_field(json_t *root, bool dynamic, struct str path, struct str field, char cause[VAULT_CAUSE_MAX])
{
	json_t *data = json_object_get(root, "data"), *inner = json_object_get(data, "data"), *meta = json_object_get(data, "metadata"), *j = NULL;
	char names[120];
	int path_n = (int)(path.n > 120 ? 120 : path.n);

	/* KV version 2 has the secret one level further in */
	if (!dynamic && json_is_object(meta) && json_object_get(meta, "version") != NULL && (json_is_object(inner) || json_is_null(inner)))
		data = inner;
	if (!json_is_object(data)) {
		snprintf(cause, VAULT_CAUSE_MAX, "there is nothing at %.*s in Vault: its newest version was deleted", path_n, path.p);
		return NULL;
	}
	if (str_eq(field, STR("*")) || (dynamic && field.n == 0 && json_object_size(data) > 1))
		return value_of(data, cause, "*");
	if (field.n == 0 && json_object_size(data) == 1)
		return value_of(json_object_iter_value(json_object_iter(data)), cause, "");
	name_fields(data, names, sizeof(names));
	if (field.n > 0) {
		char *z = str_dupz(field);

		j = json_object_get(data, z);
		free(z);
	} else {
		snprintf(cause, VAULT_CAUSE_MAX, "%.*s in Vault has several fields (%s): say with `field` which one is meant", path_n, path.p, names);
		return NULL;
	}
	if (j == NULL || json_is_null(j)) {
		snprintf(cause, VAULT_CAUSE_MAX, "%.*s in Vault has no field %.*s (it has: %s)", path_n, path.p, (int)(field.n > 40 ? 40 : field.n), field.p, names);
		return NULL;
	}
	return value_of(j, cause, "");
}

void vault_explain_path(struct str path, struct str mount, int version, char out[VAULT_CAUSE_MAX])
{
	struct str rest = str_mk(path.p + (mount.n < path.n ? mount.n : path.n), mount.n < path.n ? path.n - mount.n : 0);
	const struct str data = STR("data/");
	int rest_n, mount_n = (int)(mount.n > 80 ? 80 : mount.n);

	out[0] = 0;
	if (!str_starts(path, mount) || mount.n == 0 || !str_ends(mount, STR("/")))
		return;
	if (version == 2 && !str_starts(rest, data)) {
		struct str metadata = STR("metadata/");

		if (str_starts(rest, metadata))
			rest = str_mk(rest.p + metadata.n, rest.n - metadata.n);
		rest_n = (int)(rest.n > 120 ? 120 : rest.n);
		snprintf(out, VAULT_CAUSE_MAX, "%.*s is KV version 2: write `vault: %.*sdata/%.*s`", mount_n, mount.p, mount_n, mount.p, rest_n, rest.p);
	} else if (version == 1 && str_starts(rest, data)) {
		rest = str_mk(rest.p + data.n, rest.n - data.n);
		rest_n = (int)(rest.n > 120 ? 120 : rest.n);
		snprintf(out, VAULT_CAUSE_MAX, "%.*s is KV version 1, whose paths have no data/: write `vault: %.*s%.*s`", mount_n, mount.p, mount_n, mount.p, rest_n, rest.p);
	}
}

/* --- reading ------------------------------------------------------------------------------------------------------- */

static void on_mount(void *arg, const struct vault_answer *a)
{
	struct vault_read *r = arg;
	json_t *data = json_object_get(a->root, "data");
	const char *mount = json_string_value(json_object_get(data, "path")), *type = json_string_value(json_object_get(data, "type"));
	const char *version = json_string_value(json_object_get(json_object_get(data, "options"), "version"));
	bool kv = type != NULL && (strcmp(type, "kv") == 0 || strcmp(type, "generic") == 0);
	char text[VAULT_CAUSE_MAX] = "";

	r->op = NULL;
	if (mount != NULL && kv)
		vault_explain_path(str_of(r->path), str_of(mount), version != NULL && strcmp(version, "2") == 0 ? 2 : 1, text);
	if (text[0] != 0)
		fail(r, true, text);
	else
		fail(r, true, r->cause);
}

static void on_read(void *arg, const struct vault_answer *a)
{
	struct vault_read *r = arg;
	struct vault_value v = { .cause = r->cause, .lease = "" };
	const char *lease = json_string_value(json_object_get(a->root, "lease_id"));
	json_t *meta = json_object_get(json_object_get(a->root, "data"), "metadata");
	json_int_t s = json_integer_value(json_object_get(a->root, "lease_duration"));
	struct secret *value;
	char path[VAULT_CAUSE_MAX + 1100];

	r->op = NULL;
	if (a->status == 0) {
		fail(r, false, a->cause);
		return;
	}
	if (a->status < 200 || a->status >= 300) {
		if (a->status == 404 && json_is_string(json_object_get(meta, "deletion_time")) && json_string_length(json_object_get(meta, "deletion_time")) > 0)
			snprintf(r->cause, sizeof(r->cause), "the newest version of %.150s in Vault was deleted", r->path);
		else if (a->status == 404)
			snprintf(r->cause, sizeof(r->cause), "there is no secret at %.150s in Vault", r->path);
		else if (a->status == 403)
			snprintf(r->cause, sizeof(r->cause), "Vault denies %.150s: a policy of our login has to grant `read` on that very path", r->path);
		else
			snprintf(r->cause, sizeof(r->cause), "%.150s: %.120s", r->path, a->cause);
		if (a->status != 403 && a->status != 404) {
			fail(r, true, r->cause);
			return;
		}
		snprintf(path, sizeof(path), "sys/internal/ui/mounts/%s", r->path);
		r->op = vault_do(r->s, "GET", path, NULL, on_mount, r);
		return;
	}
	if (r->dynamic && (lease == NULL || lease[0] == 0 || s <= 0)) {
		snprintf(r->cause, sizeof(r->cause), "%.150s gives no lease: it is no dynamic secret; write `vault:` for it", r->path);
		fail(r, true, r->cause);
		return;
	}
	value = vault_field(a->root, r->dynamic, str_of(r->path), str_of(r->field), r->cause);
	if (value == NULL) {
		if (lease != NULL && lease[0] != 0)
			vault_revoke_lease(r->s, lease);
		fail(r, true, r->cause);
		return;
	}
	v.value = value;
	if (lease != NULL)
		v.lease = lease;
	v.lease_s = s > 0 && s < UINT32_MAX ? (uint32_t)s : 0;
	v.renewable = json_is_true(json_object_get(a->root, "renewable"));
	r->fn(r->arg, &v);
	secret_free(value);
	end(r);
}

struct vault_read *vault_read(struct vault_session *s, bool dynamic, struct str path, struct str field, vault_read_fn *fn, void *arg)
{
	struct vault_read *r = must_calloc(1, sizeof(*r));

	r->s = s;
	r->dynamic = dynamic;
	r->path = str_dupz(path);
	r->field = str_dupz(field);
	r->fn = fn;
	r->arg = arg;
	r->op = vault_do(s, "GET", r->path, NULL, on_read, r);
	return r;
}
