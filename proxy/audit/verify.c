/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../common/base/must.h"
#include "reader.h"

struct verify {
	struct chain *chain;
	char prev[CHAIN_HEX];
	uint64_t sequence, records, after_checkpoint, files;
	bool begun;
	struct chain_anchor anchor;
	bool anchor_met; /* the record that the checkpoint file names was there */
};

static bool bad(const char *file, uint64_t line, const char *what)
{
	printf("%s:%llu: %s\n", file, (unsigned long long)line, what);
	return false;
}

static bool check_line(struct verify *v, const char *file, uint64_t n, struct str line)
{
	struct chain_link k;
	const char *wrong;
	char text[160];

	if (!chain_parse(line, &k))
		return bad(file, n, "this is not a whole record");
	wrong = chain_check(v->chain, &k);
	if (wrong != NULL)
		return bad(file, n, wrong);
	if (memcmp(k.prev, v->prev, CHAIN_HEX) != 0 || k.sequence != v->sequence + 1) {
		if (!v->begun)
			snprintf(text, sizeof(text), "the chain begins at record %llu: what was before is missing", (unsigned long long)k.sequence);
		else if (k.sequence > v->sequence + 1)
			snprintf(text, sizeof(text), "%llu records before this one are missing", (unsigned long long)(k.sequence - v->sequence - 1));
		else
			snprintf(text, sizeof(text), "this record does not follow on the one before: records were exchanged, doubled or taken out");
		return bad(file, n, text);
	}
	v->begun = true;
	v->sequence = k.sequence;
	memcpy(v->prev, k.hash, CHAIN_HEX);
	v->records++;
	v->after_checkpoint++;
	if (k.checkpoint_mac.n > 0)
		v->after_checkpoint = 0;
	if (k.sequence == v->anchor.sequence) {
		v->anchor_met = memcmp(k.hash, v->anchor.hash, CHAIN_HEX) == 0;
		v->after_checkpoint = 0;
		if (!v->anchor_met)
			return bad(file, n, "this is not the record that the checkpoint file names");
	}
	return true;
}

static bool check_file(struct verify *v, int dir_fd, const char *file, bool current, struct err *err)
{
	int fd = openat(dir_fd, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
	uint64_t n = 0;
	char *line = NULL;
	size_t cap = 0;
	ssize_t k;
	bool ok = true;

	if (f == NULL) {
		if (fd >= 0)
			close(fd);
		err_errno(err, "cannot read %s", file);
		return false;
	}
	v->files++;
	while (ok && (k = getline(&line, &cap, f)) > 0) {
		n++;
		if (line[k - 1] != '\n') {
			ok = bad(file, n, current ? "the last record is unfinished: it is being written now, or the gateway or the machine went down (the next start cuts it off), or somebody cut it" : "the last record is unfinished");
			break;
		}
		ok = check_line(v, file, n, str_mk(line, (size_t)k - 1));
	}
	if (ok && ferror(f)) {
		err_errno(err, "cannot read %s", file);
		ok = false;
	}
	free(line);
	fclose(f);
	return ok;
}

/* Before the records: what is appended meanwhile can only be more. */
static bool read_anchor(struct verify *v, int dir_fd)
{
	char text[512];
	int fd = openat(dir_fd, CHAIN_ANCHOR_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text)) : -1;

	if (fd >= 0)
		close(fd);
	if (n < 0)
		return bad(CHAIN_ANCHOR_FILE, 1, "the checkpoint file is missing: records at the end may be missing too");
	if (!chain_anchor_parse(v->chain, str_mk(text, (size_t)n), &v->anchor))
		return bad(CHAIN_ANCHOR_FILE, 1, "the checkpoint file was changed");
	v->anchor_met = v->anchor.sequence == 0;
	return true;
}

int verify_log(int dir_fd, struct err *err)
{
	struct verify v = { 0 };
	int key_fd = openat(dir_fd, "chain.key", O_RDONLY | O_CLOEXEC | O_NOFOLLOW), ret = 1;
	uint32_t *rotated = NULL;
	size_t n = 0;
	char name[40];
	struct stat st;
	bool ok;

	memcpy(v.prev, chain_zero, CHAIN_HEX);
	if (key_fd < 0) {
		err_errno(err, "cannot read chain.key: only who has it can verify");
		return 1;
	}
	v.chain = chain_load(key_fd, err);
	close(key_fd);
	if (v.chain == NULL)
		return 1;
	ok = read_anchor(&v, dir_fd);
	rotated = reader_rotated(dir_fd, &n);
	for (size_t i = 0; ok && i < n; i++) {
		snprintf(name, sizeof(name), "audit-%u.jsonl", rotated[i]);
		ok = check_file(&v, dir_fd, name, false, err);
	}
	if (ok && (fstatat(dir_fd, CHAIN_FILE, &st, AT_SYMLINK_NOFOLLOW) == 0 || v.anchor.sequence == 0 || n == 0))
		ok = check_file(&v, dir_fd, CHAIN_FILE, true, err);
	if (ok && !v.anchor_met) {
		printf("%s: the records end at %llu, but record %llu was there at the last checkpoint: %llu are missing at the end\n", CHAIN_FILE,
		       (unsigned long long)v.sequence, (unsigned long long)v.anchor.sequence, (unsigned long long)(v.anchor.sequence - v.sequence));
		ok = false;
	}
	if (ok) {
		printf("ok: %llu records in %llu file%s, the chain is unbroken\n", (unsigned long long)v.records, (unsigned long long)v.files, v.files == 1 ? "" : "s");
		if (v.after_checkpoint > 0)
			printf("note: %llu record%s stand after the last checkpoint; had more been cut off behind them, this could not tell\n", (unsigned long long)v.after_checkpoint, v.after_checkpoint == 1 ? "" : "s");
		ret = 0;
	}
	free(rotated);
	chain_free(v.chain);
	return ret;
}
