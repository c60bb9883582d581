/* SPDX-License-Identifier: Apache-2.0 */
/* Roles start with an empty environment: what the sanitizers should know stands here (only in such builds). */
#ifdef SP_SANITIZED
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	/* the leak check at exit traces its own process, which the walls forbid; unit tests have it on by their environment.
	 * The quarantine is small, so that a leak shows within minutes in what a role holds (tests/soak) */
	return "detect_leaks=0:abort_on_error=0:handle_abort=0:handle_segv=0:quarantine_size_mb=4:intercept_tls_get_addr=0:symbolize=0";
}
const char *__ubsan_default_options(void);
const char *__ubsan_default_options(void) { return "print_stacktrace=0:symbolize=0"; }
#endif
typedef int sanitize_not_empty; /* ISO C wants something in a file */
