/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meter PID...: reads loadgen's lines on standard input; at "begin" and at "end {json}" it sums processor time (utime and
 * stime) and resident memory over the process trees below the given processes, and prints the json with the differences.
 * It says so if the set of processes changed in between, or if one of them may run on more processors than one: the
 * figure would not mean what the table says.
 */
#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROCS_MAX 4096

struct proc {
	int pid, ppid;
	unsigned long long ticks, pages;
	bool in;
};
struct sum {
	double cpu_s;
	unsigned long long rss_kb, pid_hash;
	int procs, unpinned;
};

static struct proc table[PROCS_MAX];

static bool read_proc(int pid, struct proc *p)
{
	char path[64], line[2048], *s;
	FILE *f;
	unsigned long ut, st;
	long rss;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "r");
	if (f == NULL)
		return false;
	s = fgets(line, sizeof(line), f);
	fclose(f);
	/* the name stands in parentheses and may hold any octet: what counts begins behind the last one (proc(5)) */
	if (s == NULL || (s = strrchr(line, ')')) == NULL)
		return false;
	if (sscanf(s + 2, "%*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %*d %*d %*u %*u %ld", &p->ppid, &ut, &st, &rss) != 4)
		return false;
	p->pid = pid;
	p->ticks = ut + st;
	p->pages = rss > 0 ? (unsigned long long)rss : 0;
	p->in = false;
	return true;
}

static bool pinned(int pid)
{
	char path[64], line[256];
	bool one = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "r");
	if (f == NULL)
		return false;
	while (fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, "Cpus_allowed_list:", 18) == 0)
			one = strpbrk(line + 18, ",-") == NULL;
	fclose(f);
	return one;
}

static struct sum measure(int argc, char **argv)
{
	struct sum u = { 0 };
	struct dirent *e;
	DIR *d = opendir("/proc");
	int n = 0;
	bool more = true;

	while (d != NULL && (e = readdir(d)) != NULL && n < PROCS_MAX)
		if (isdigit((unsigned char)e->d_name[0]) && read_proc(atoi(e->d_name), &table[n]))
			n++;
	if (d != NULL)
		closedir(d);
	for (int i = 0; i < n; i++)
		for (int a = 1; a < argc; a++)
			table[i].in |= table[i].pid == atoi(argv[a]);
	while (more) {
		more = false;
		for (int i = 0; i < n; i++)
			for (int k = 0; k < n && !table[i].in; k++)
				if (table[k].in && table[k].pid == table[i].ppid)
					table[i].in = more = true;
	}
	for (int i = 0; i < n; i++) {
		if (!table[i].in)
			continue;
		u.procs++;
		u.cpu_s += (double)table[i].ticks / (double)sysconf(_SC_CLK_TCK);
		u.rss_kb += table[i].pages * (unsigned long long)sysconf(_SC_PAGESIZE) / 1024;
		u.pid_hash += (unsigned long long)table[i].pid * 2654435761u;
		u.unpinned += !pinned(table[i].pid);
	}
	return u;
}

int main(int argc, char **argv)
{
	char line[2048];
	struct sum a = { 0 }, b;
	bool begun = false;

	while (fgets(line, sizeof(line), stdin) != NULL) {
		if (strcmp(line, "begin\n") == 0) {
			a = measure(argc, argv);
			begun = true;
		} else if (strncmp(line, "end {", 5) == 0 && begun) {
			b = measure(argc, argv);
			line[strcspn(line, "\n")] = 0;
			line[strlen(line) - 1] = 0;
			printf("%s,\"cpu_s\":%.2f,\"rss_begin_kb\":%llu,\"rss_end_kb\":%llu,\"procs\":%d,\"changed\":%s,\"unpinned\":%d}\n", line + 4, b.cpu_s - a.cpu_s, a.rss_kb, b.rss_kb,
				b.procs, a.pid_hash == b.pid_hash ? "false" : "true", b.unpinned);
			return 0;
		} else {
			fputs(line, stderr);
		}
	}
	fprintf(stderr, "meter: the load generator ended before its window did\n");
	return 1;
}
