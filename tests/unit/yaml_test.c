/* SPDX-License-Identifier: Apache-2.0 */
/* The YAML subset: what the tree holds, and what is refused where. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/conf/yaml.h"

struct parsed {
	struct arena mem;
	struct diag d;
	struct yaml_node *root;
};

static struct parsed *parse_n(const char *text, size_t n)
{
	struct parsed *p = calloc(1, sizeof(*p));
	char *copy = malloc(n ? n : 1); /* of just its size: a sanitizer sees every step too far */

	assert_non_null(p);
	assert_non_null(copy);
	memcpy(copy, text, n);
	p->d.file = "f";
	p->root = yaml_parse(&p->mem, copy, n, &p->d);
	free(copy);
	assert_int_equal(p->root == NULL, p->d.errors > 0);
	return p;
}

static struct parsed *parse(const char *text) { return parse_n(text, strlen(text)); }

static void done(struct parsed *p)
{
	arena_fini(&p->mem);
	diag_fini(&p->d);
	free(p);
}

static void refused(const char *text, const char *message)
{
	struct parsed *p = parse(text);

	if (p->root != NULL || str_find(buf_str(&p->d.out), str_of(message)) < 0)
		fail_msg("%s: %.*s", message, (int)buf_len(&p->d.out), (const char *)buf_str(&p->d.out).p);
	done(p);
}

static void tree(void **state)
{
	struct parsed *p = parse("# comment\n"
				 "text: off\n"
				 "number: 0443\n"
				 "quoted: \"a: b\"\n"
				 "empty:\n"
				 "tilde: ~\n"
				 "null_text: \"null\"\n"
				 "list: [a, \"b\", [c]]\n"
				 "block:\n"
				 "  - x y\n"
				 "  - k: v\n"
				 "    l: w\n"
				 "prose: |\n"
				 "  one\n"
				 "  two\n"
				 "\"k\\u00e9y\": é\n");
	const struct yaml_node *n;

	(void)state;
	assert_non_null(p->root);
	assert_int_equal(p->root->kind, YAML_MAP);
	assert_int_equal(p->root->n, 10);
	assert_true(str_eq(yaml_get(p->root, "text")->text, STR("off")));
	assert_true(str_eq(yaml_get(p->root, "number")->text, STR("0443")));
	n = yaml_get(p->root, "quoted");
	assert_true(str_eq(n->text, STR("a: b")) && n->quoted && n->line == 4 && n->col == 9);
	assert_int_equal(yaml_get(p->root, "empty")->kind, YAML_NULL);
	assert_int_equal(yaml_get(p->root, "tilde")->kind, YAML_NULL);
	assert_int_equal(yaml_get(p->root, "null_text")->kind, YAML_TEXT);
	n = yaml_get(p->root, "list");
	assert_true(n->kind == YAML_LIST && n->n == 3 && n->items[2]->kind == YAML_LIST && n->items[1]->col == 11);
	n = yaml_get(p->root, "block");
	assert_true(n->n == 2 && n->items[1]->kind == YAML_MAP && n->items[1]->n == 2 && n->items[1]->line == 11 && n->items[1]->col == 5);
	assert_true(str_eq(yaml_get(p->root, "prose")->text, STR("one\ntwo\n")));
	assert_true(str_eq(yaml_get(p->root, "kéy")->text, STR("é")));
	assert_null(yaml_get(p->root, "none"));
	assert_null(yaml_get(n, "none"));
	done(p);
}

static void empty(void **state)
{
	static const char *const texts[] = { "", "\n", "# only a comment\n", "---\n", "---\n...\n", "~\n" };

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct parsed *p = parse(texts[i]);

		assert_non_null(p->root);
		assert_int_equal(p->root->kind, YAML_NULL);
		done(p);
	}
}

static void outside_the_subset(void **state)
{
	(void)state;
	refused("a: &x b\n", "f:1:4: error: anchors");
	refused("a: &x [b]\n", "f:1:4: error: anchors");
	refused("a: *x\n", "f:1:4: error: a value that begins with *");
	refused("a: *.x\n", "f:1:4: error: a value that begins with *");
	refused("a: !!int 1\n", "f:1:4: error: tags");
	refused("a: !x {b: c}\n", "f:1:4: error: tags");
	refused("<<: {a: b}\n", "f:1:1: error: merge keys");
	refused("%YAML 1.2\n---\na: b\n", "error: YAML directives");
	refused("a: b\n---\na: b\n", "f:2:1: error: a second document");
	refused("a: b\nc: d\na: e\n", "f:3:1: error: the key `a` stands twice in one map (first at line 1)");
	refused("{a: b}: c\n", "f:1:1: error: a key must be plain text");
	refused("a: ${HOME}\n", "f:1:4: error: ${ is reserved");
	refused("a: \"x${y}\"\n", "f:1:4: error: ${ is reserved");
	refused("a:\tb\n", "f:1:3: error: a tab");
	refused("a: b # x\ty\n", "f:1:9: error: a tab");
	refused("a: b\r\n", "f:1:5: error: a carriage return");
	refused("\xef\xbb\xbf" "a: b\n", "f:1:1: error: a byte order mark");
	refused("a: \xff\n", "f:1:4: error: not UTF-8");
	refused("a: \xc0\xaf\n", "f:1:4: error: not UTF-8");
	refused("a: \xed\xa0\x80\n", "f:1:4: error: not UTF-8");
	refused("é: \xf4\x90\x80\x80\n", "f:1:4: error: not UTF-8");
	refused("a: \xe2\x80\n", "f:1:4: error: not UTF-8");
	refused("a: \x1b[1m\n", "f:1:4: error: a control character");
	refused("a: \xc2\x85" "b\n", "f:1:4: error: a control character");
	refused("a: \xe2\x80\xae" "b\n", "f:1:4: error: an invisible direction mark");
	refused("a: \"\\0\"\n", "f:1:4: error: an escape in this value");
	refused("a: \"\\u202e\"\n", "f:1:4: error: an escape in this value");
	refused("a: [[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]\n", "nested too deeply");
	refused("a: b: c\n", "f:1:5: error: a colon and a space");
	refused("a: @b\n", "f:1:4: error: a value cannot begin with this");
	refused("a: [b\n", "f:2:1: error:");
	refused("a: \"b\n", "error:");
}

/* What libyaml accepts and the subset does not is all told in one run. */
static void all_in_one_run(void **state)
{
	struct parsed *p = parse("a: &x b\nc: *x\nd: !t e\na: f\n");

	(void)state;
	assert_int_equal(p->d.errors, 4);
	done(p);
	p = parse("a:\tb\nc: d\ne:\tf\n");
	assert_int_equal(p->d.errors, 2);
	done(p);
}

static void comments_that_touch(void **state)
{
	struct parsed *p = parse("- a #b\n- a # b\n- a#b\n- \"a #b\" #c\n- é x  #y\n- a ## b\n- a #\n- last #x");

	(void)state;
	assert_int_equal(p->root->n, 8);
	assert_true(p->root->items[0]->comment_touches && str_eq(p->root->items[0]->text, STR("a")));
	assert_false(p->root->items[1]->comment_touches);
	assert_false(p->root->items[2]->comment_touches);
	assert_false(p->root->items[3]->comment_touches);
	assert_true(p->root->items[4]->comment_touches);
	assert_false(p->root->items[5]->comment_touches);
	assert_false(p->root->items[6]->comment_touches);
	assert_true(p->root->items[7]->comment_touches);
	done(p);
}

/* Large files take time in proportion. */
static void large(void **state)
{
	struct buf b = { 0 };
	struct parsed *p;

	(void)state;
	for (int i = 0; i < 60000; i++)
		buf_addf(&b, "key-%d: [a, b, \"c\"] # comment\n", i);
	p = parse_n((const char *)buf_data(&b), buf_len(&b));
	assert_non_null(p->root);
	assert_int_equal(p->root->n, 60000);
	done(p);
	buf_addz(&b, "key-7: again\n");
	p = parse_n((const char *)buf_data(&b), buf_len(&b));
	assert_int_equal(p->d.errors, 1);
	done(p);
	buf_fini(&b);
	buf_room(&b, YAML_SIZE_MAX + 1);
	memset(buf_room(&b, YAML_SIZE_MAX + 1), '#', YAML_SIZE_MAX + 1);
	buf_commit(&b, YAML_SIZE_MAX + 1);
	p = parse_n((const char *)buf_data(&b), buf_len(&b));
	assert_int_equal(p->d.errors, 1);
	done(p);
	buf_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tree),
		cmocka_unit_test(empty),
		cmocka_unit_test(outside_the_subset),
		cmocka_unit_test(all_in_one_run),
		cmocka_unit_test(comments_that_touch),
		cmocka_unit_test(large),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
