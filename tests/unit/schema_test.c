/* SPDX-License-Identifier: Apache-2.0 */
/* Rows: types, what is required, what is unknown, what is for later, and the order in which rows are visited. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/conf/schema.h"

struct seen {
	struct buf log; /* "key=value;" as the rows were visited */
};

static void note(void *arg, const struct schema_row *row, const struct schema_value *v)
{
	struct seen *s = arg;

	buf_addf(&s->log, "%s=", row->key);
	if (row->type == SCHEMA_NUMBER || row->type == SCHEMA_DECIMAL || row->type == SCHEMA_SIZE || row->type == SCHEMA_TIME)
		buf_addu(&s->log, v->number);
	else if (row->type == SCHEMA_BOOL)
		buf_addz(&s->log, v->truth ? "yes" : "no");
	else if (row->type == SCHEMA_TEXTS || row->type == SCHEMA_ONE_OR_MORE)
		for (unsigned i = 0; i < v->n; i++)
			buf_addf(&s->log, "%.*s,", (int)v->items[i]->text.n, v->items[i]->text.p);
	else if (row->type == SCHEMA_LIST || row->type == SCHEMA_MAP)
		buf_addf(&s->log, "%u", v->n);
	else
		buf_adds(&s->log, v->text);
	buf_addc(&s->log, ';');
}

static const struct schema_row rows[] = {
	{ "needed", SCHEMA_TEXT, true, note, NULL, 0, 0 },
	{ "prose", SCHEMA_PROSE, false, note, NULL, 0, 0 },
	{ "flag", SCHEMA_BOOL, false, note, NULL, 0, 0 },
	{ "word", SCHEMA_WORD, false, note, "one|two|three four", 0, 0 },
	{ "count", SCHEMA_NUMBER, false, note, NULL, 2, 10 },
	{ "share", SCHEMA_DECIMAL, false, note, NULL, 100, 4000 },
	{ "size", SCHEMA_SIZE, false, note, NULL, 1024, 0 },
	{ "time", SCHEMA_TIME, false, note, NULL, 0, 0 },
	{ "names", SCHEMA_TEXTS, false, note, NULL, 0, 3 },
	{ "hosts", SCHEMA_ONE_OR_MORE, false, note, NULL, 0, 0 },
	{ "list", SCHEMA_LIST, false, note, NULL, 0, 0 },
	{ "map", SCHEMA_MAP, false, note, NULL, 0, 0 },
	{ "any", SCHEMA_ANY, false, note, NULL, 0, 0 },
	{ "future", SCHEMA_LATER, false, NULL, "flying", 0, 0 },
};

/* What was visited, or the first message. */
static void check(const char *text, const char *want)
{
	struct arena a = { 0 };
	struct diag d = { .file = "f" };
	struct seen s = { { 0 } };
	struct yaml_node *root = yaml_parse(&a, text, strlen(text), &d);
	struct str have;
	bool ok;

	assert_non_null(root);
	ok = schema_parse(&d, root, "a thing", SCHEMA_ROWS(rows), &s);
	assert_int_equal(ok, d.errors == 0);
	have = ok ? buf_str(&s.log) : buf_str(&d.out);
	if (ok ? !str_eq(have, str_of(want)) : str_find(have, str_of(want)) < 0)
		fail_msg("%s\nhave: %.*s\nwant: %s", text, (int)have.n, have.p, want);
	buf_fini(&s.log);
	diag_fini(&d);
	arena_fini(&a);
}

static void values(void **state)
{
	(void)state;
	check("needed: x\n", "needed=x;");
	check("any: [1]\nneeded: x\n", "needed=x;any=;");
	check("flag: false\nneeded: off\nprose: \"\"\n", "needed=off;prose=;flag=no;");
	check("needed: x\nword: three four\ncount: 10\nshare: 1.5\n", "needed=x;word=three four;count=10;share=1500;");
	check("needed: x\nsize: 2KiB\ntime: 90s\n", "needed=x;size=2048;time=90000;");
	check("needed: x\nsize: 1MB\ntime: 250ms\n", "needed=x;size=1000000;time=250;");
	check("needed: x\nnames: []\nhosts: a\n", "needed=x;names=;hosts=a,;");
	check("needed: x\nnames: [a, b, c]\nhosts: [a, b]\n", "needed=x;names=a,b,c,;hosts=a,b,;");
	check("needed: x\nlist: [a, [b]]\nmap: {c: d}\n", "needed=x;list=2;map=1;");
	check("needed: x\nflag: ~\nmap:\n", "needed=x;"); /* null is absent */
}

static void faults(void **state)
{
	(void)state;
	check("flag: true\n", "f:1:1: error: a thing needs `needed`");
	check("needed: ~\n", "f:1:1: error: a thing needs `needed`");
	check("needed: \"\"\n", "f:1:9: error: `needed` is empty");
	check("needed: [x]\n", "f:1:9: error: `needed` must be text");
	check("needed: \"a\\nb\"\n", "f:1:9: error: `needed` must be one line");
	check("needed: x\nflag: yes\n", "f:2:7: error: `flag` must be true or false");
	check("needed: x\nflag: \"true\"\n", "f:2:7: error: `flag` must be true or false");
	check("needed: x\nword: four\n", "f:2:7: error: `word: four` is not supported by this version of sallyport: possible is one|two|three four");
	check("needed: x\nword: one|two\n", "f:2:7: error: `word: one|two` is not supported");
	check("needed: x\nword: [one]\n", "f:2:7: error: `word` must be one of");
	check("needed: x\ncount: 1\n", "f:2:8: error: `count` must be from 2 to 10");
	check("needed: x\ncount: 010\n", "f:2:8: error: `count` must be a decimal number");
	check("needed: x\ncount: 0x4\n", "f:2:8: error: `count` must be a decimal number");
	check("needed: x\ncount: 99999999999999999999\n", "f:2:8: error: `count` must be a decimal number");
	check("needed: x\nshare: 1.55\n", "f:2:8: error: `share` must be a number such as");
	check("needed: x\nshare: 9\n", "f:2:8: error: `share` must be from 0.1 to 4");
	check("needed: x\nsize: 512\n", "f:2:7: error: `size` must be a size with its unit");
	check("needed: x\nsize: 1B\n", "f:2:7: error: `size` must be at least 1024");
	check("needed: x\nsize: 1.5GiB\n", "f:2:7: error: `size` must be a size with its unit");
	check("needed: x\ntime: 10\n", "f:2:7: error: `time` must be a time with its unit");
	check("needed: x\nnames: a\n", "f:2:8: error: `names` must be a list");
	check("needed: x\nnames: [a, [b]]\n", "f:2:12: error: an entry of `names` must be text");
	check("needed: x\nnames: [a, b, c, d]\n", "f:2:8: error: `names` has more than 3 entries");
	check("needed: x\nhosts: {a: b}\n", "f:2:8: error: `hosts` must be text");
	check("needed: x\nlist: {a: b}\n", "f:2:7: error: `list` must be a list");
	check("needed: x\nmap: [a]\n", "f:2:6: error: `map` must be a map");
	check("[needed]\n", "f:1:1: error: a thing must be a map");
}

static void keys(void **state)
{
	(void)state;
	check("needed: x\nhsots: a\n", "f:2:1: error: unknown key `hsots` in a thing; did you mean `hosts`?");
	check("needed: x\nname: a\n", "f:2:1: error: unknown key `name` in a thing; did you mean `names`?");
	check("needed: x\nHosts: a\n", "did you mean `hosts`?");
	check("needed: x\nsomething_else: a\n", "f:2:1: error: unknown key `something_else` in a thing\n");
	check("needed: x\n\"\": a\n", "f:2:1: error: unknown key `` in a thing\n");
	check("needed: x\nfuture: a\n", "f:2:1: error: `future` (flying) is not supported by this version of sallyport");
	check("needed: x\nfutur: a\n", "f:2:1: error: unknown key `futur` in a thing\n"); /* no use in naming what is not there yet */
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(values), cmocka_unit_test(faults), cmocka_unit_test(keys) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
