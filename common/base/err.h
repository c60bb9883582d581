/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_ERR_H
#define SP_ERR_H
/*
 * Errors are the last argument, untouched on success, wrapped on the way up. A function that fails returns -1 (or
 * NULL) and has filled *err. The text is a whole sentence fragment without trailing dot or newline: "cannot open
 * /x/y: No such file or directory".
 */
struct err {
	int code; /* an errno value, or one of the module's own; 0 = no error */
	char text[512];
};
#define ERR_INIT { 0, { 0 } }

/* Each fills *err and returns -1, so that `return err_set(...)` reads well. err may be NULL. */
int err_set(struct err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* As err_set, with ": " and strerror(errno) behind it; code = errno. */
int err_errno(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Puts "text: " before what *err already says. */
int err_wrap(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#endif
