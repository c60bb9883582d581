/* SPDX-License-Identifier: Apache-2.0 */
#include "orphans.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../common/base/must.h"

struct orphans {
	int fd;
	int slots; /* in the file */
	unsigned char taken[ORPHANS_MAX / 8];
	unsigned char from_before[ORPHANS_MAX / 8];
};

static bool bit(const unsigned char *b, int i) { return (b[i / 8] & 1u << i % 8) != 0; }
static void set_bit(unsigned char *b, int i, bool on) { b[i / 8] = (unsigned char)(on ? b[i / 8] | 1u << i % 8 : b[i / 8] & ~(1u << i % 8)); }

static bool read_slot(const struct orphans *o, int i, char text[ORPHAN_SIZE])
{
	if (pread(o->fd, text, ORPHAN_SIZE, (off_t)i * ORPHAN_SIZE) != ORPHAN_SIZE)
		return false;
	text[ORPHAN_SIZE - 1] = 0;
	for (const char *p = text; *p; p++)
		if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || *p == '.' || *p == '-' || *p == '_'))
			return false;
	return text[0] != 0;
}

struct orphans *orphans_new(int fd)
{
	struct orphans *o = must_calloc(1, sizeof(*o));
	char text[ORPHAN_SIZE];
	struct stat st;

	o->fd = fd;
	if (fd < 0 || fstat(fd, &st) != 0)
		return o;
	o->slots = st.st_size / ORPHAN_SIZE > ORPHANS_MAX ? ORPHANS_MAX : (int)(st.st_size / ORPHAN_SIZE);
	for (int i = 0; i < o->slots; i++) {
		if (!read_slot(o, i, text))
			continue;
		set_bit(o->taken, i, true);
		set_bit(o->from_before, i, true);
	}
	return o;
}

void orphans_free(struct orphans *o)
{
	if (o == NULL)
		return;
	if (o->fd >= 0)
		close(o->fd);
	free(o);
}

static bool write_slot(struct orphans *o, int i, const char *accessor)
{
	char text[ORPHAN_SIZE] = { 0 };

	memcpy(text, accessor, strlen(accessor));
	return pwrite(o->fd, text, sizeof(text), (off_t)i * ORPHAN_SIZE) == (ssize_t)sizeof(text);
}

int orphans_add(struct orphans *o, const char *accessor)
{
	int i = 0;

	if (o->fd < 0 || accessor[0] == 0 || strlen(accessor) >= ORPHAN_SIZE)
		return -1;
	while (i < ORPHANS_MAX && bit(o->taken, i))
		i++;
	if (i == ORPHANS_MAX || !write_slot(o, i, accessor))
		return -1;
	set_bit(o->taken, i, true);
	set_bit(o->from_before, i, false);
	if (i >= o->slots)
		o->slots = i + 1;
	return i;
}

void orphans_remove(struct orphans *o, int slot)
{
	if (slot < 0 || slot >= o->slots || !bit(o->taken, slot))
		return;
	if (write_slot(o, slot, ""))
		set_bit(o->taken, slot, false);
	set_bit(o->from_before, slot, false);
}

bool orphans_left(struct orphans *o, int *at, char accessor[ORPHAN_SIZE])
{
	for (; *at < o->slots; (*at)++)
		if (bit(o->from_before, *at) && read_slot(o, *at, accessor))
			return true;
	return false;
}
