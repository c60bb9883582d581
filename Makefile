# Sallyport. `make` builds everything into bin/; `make check` tests it; `make demo` shows it. See README.md.
# One Makefile, no recursion: a folder is a program.
VARIANT ?= release
PREFIX ?= /usr/local
DESTDIR ?=
VERSION := 0.1.0

B := build/$(VARIANT)
BIN := $(if $(filter release,$(VARIANT)),bin,$(B)/bin)
CC_fuzz := clang
CC := $(if $(CC_$(VARIANT)),$(CC_$(VARIANT)),$(if $(filter default,$(origin CC)),gcc,$(CC)))
# clang warns of other things than gcc; it builds fuzzers only
WERROR ?= $(if $(filter fuzz,$(VARIANT)),,-Werror)
PKGS := openssl libcurl zlib libbrotlidec libzstd libcares libpcre2-8 yaml-0.1 libseccomp jansson libnghttp2 libidn2 libpsl
# What is missing is installed first, before anything below asks pkg-config. Building needs less than testing does.
GOALS := $(or $(MAKECMDGOALS),all)
ifneq ($(filter check demo bench,$(GOALS)),)
DEP_SETS := core $(if $(filter check,$(GOALS)),clients)
MISSING := $(shell bash tests/deps.sh --check $(DEP_SETS) || echo yes)
else ifneq ($(filter-out deps clean install lint,$(GOALS)),)
MISSING := $(shell pkg-config --exists $(PKGS) 2>/dev/null && test -f /usr/include/lmdb.h && command -v gcc || echo yes)
MISSING := $(filter yes,$(MISSING))
endif
ifeq ($(MISSING),yes)
$(info sallyport: packages are missing: running `make deps` first)
DEPS := $(shell bash tests/deps.sh $(or $(DEP_SETS),core) >&2 && echo done)
ifneq ($(DEPS),done)
$(error packages are missing and could not be installed (see above))
endif
endif

OPT_release := -O2 -g -flto=auto -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
OPT_debug := -O0 -g3
OPT_san := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -DSP_SANITIZED
OPT_fuzz := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -DSP_SANITIZED
OPT_cov := -O0 -g --coverage
CFLAGS_ALL := -std=gnu17 -D_GNU_SOURCE -DSP_VERSION='"$(VERSION)"' -I. $(OPT_$(VARIANT)) -Wall -Wextra -Wno-format-truncation $(WERROR) -Wshadow -Wstrict-prototypes \
	-Wmissing-prototypes -Wpointer-arith -Wvla -fstack-protector-strong -fPIE $(shell pkg-config --cflags $(PKGS) 2>/dev/null) $(CFLAGS)
LDFLAGS_ALL := $(OPT_$(VARIANT)) -Wno-stringop-overflow -Wno-stringop-overread $(if $(filter san,$(VARIANT)),-static-libasan) -pie -Wl,-z,relro,-z,now,-z,noexecstack -Wl,--as-needed $(LDFLAGS)
SAN_OBJ := $(if $(filter san fuzz,$(VARIANT)),$(B)/common/sys/sanitize.o)
LIBS_COMMON := $(SAN_OBJ) $(shell pkg-config --libs openssl yaml-0.1 libseccomp jansson libpcre2-8 2>/dev/null) -lpthread
LIBS_HTTP := $(shell pkg-config --libs libnghttp2 2>/dev/null)
LIBS_CURL := $(shell pkg-config --libs libcurl 2>/dev/null)
LIBS_CODING := $(shell pkg-config --libs zlib libbrotlidec libzstd 2>/dev/null)
LIBS_TEST := -lcares $(LIBS_CURL) $(LIBS_HTTP) $(LIBS_CODING) $(shell pkg-config --libs libbrotlienc 2>/dev/null) -llmdb -lidn2 -lpsl

obj = $(patsubst %.c,$(B)/%.o,$(1))
src = $(wildcard $(addsuffix /*.c,$(1)))

COMMON_SRC := $(call src,common common/base common/sys common/conf common/policy)
HTTP_SRC := $(call src,proxy/http proxy/filter)
POLICY_LIB_SRC := $(filter-out policy-compiler/main.c,$(call src,policy-compiler))
CHECKER_SRC := $(call src,proxy/checker)
PROXY_SRC := proxy/main.c $(HTTP_SRC) $(call src,proxy/supervisor proxy/worker proxy/exchange proxy/dialer proxy/audit) $(CHECKER_SRC)
SECRETS_SRC := $(call src,proxy/secrets)
CA_SRC := $(call src,ca)
SANDBOX_SRC := $(call src,sandbox-launcher)
SELFTEST_SRC := $(wildcard proxy/selftest.c)

PROGRAMS := sallyport sallyport-proxy sallyport-secrets sallyport-ca sallyport-policy sallyport-sandbox
UNIT := $(patsubst tests/unit/%.c,$(B)/tests/%,$(wildcard tests/unit/*_test.c))
FUZZ := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/*_fuzz.c))
REPLAY := $(addprefix $(B)/replay/,$(FUZZ))

.PHONY: all deps check demo install bench bench-scrub fuzz fuzz-hour property kill200 transfer10g soak vault-real lint clean tests
all: $(addprefix $(BIN)/,$(PROGRAMS)) $(if $(SELFTEST_SRC),$(B)/sallyport-proxy-selftest)

deps:
	bash tests/deps.sh

$(B)/%.o: %.c
	@mkdir -p $(dir $@)
	@echo "  CC $@"; $(CC) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<

$(B)/libcommon.a: $(SAN_OBJ) $(filter-out $(SAN_OBJ),$(call obj,$(COMMON_SRC)))
	@rm -f $@
	@$(if $(filter release,$(VARIANT)),gcc-ar,ar) rcs $@ $(filter-out $(SAN_OBJ),$^)

define program
$(BIN)/$(1): $$(call obj,$(2)) $(B)/libcommon.a
	@mkdir -p $$(dir $$@)
	@echo "  LD $$@"; $$(CC) $$(LDFLAGS_ALL) -o $$@ $$(call obj,$(2)) $(B)/libcommon.a $$(LIBS_COMMON) $(3)
endef
$(eval $(call program,sallyport,$(call src,cli),))
$(eval $(call program,sallyport-proxy,$(PROXY_SRC),-lcares $(LIBS_HTTP) $(LIBS_CODING)))
$(eval $(call program,sallyport-secrets,$(SECRETS_SRC),$(LIBS_CURL)))
$(eval $(call program,sallyport-ca,$(CA_SRC),))
$(eval $(call program,sallyport-policy,policy-compiler/main.c $(POLICY_LIB_SRC),-llmdb -lidn2 -lpsl))
$(eval $(call program,sallyport-sandbox,$(SANDBOX_SRC),))

$(B)/sallyport-proxy-selftest: $(call obj,$(SELFTEST_SRC)) $(B)/libcommon.a
	@echo "  LD $@"; $(CC) $(LDFLAGS_ALL) -o $@ $(call obj,$(SELFTEST_SRC)) $(B)/libcommon.a $(LIBS_COMMON)

# Unit tests link everything but the mains.
TESTLIB_SRC := $(HTTP_SRC) $(POLICY_LIB_SRC) $(CHECKER_SRC) $(call src,proxy/supervisor proxy/worker proxy/exchange proxy/dialer proxy/audit) $(filter-out proxy/secrets/main.c,$(SECRETS_SRC)) \
	$(filter-out ca/main.c,$(CA_SRC)) $(filter-out sandbox-launcher/main.c,$(SANDBOX_SRC))
$(B)/libtest.a: $(call obj,$(TESTLIB_SRC))
	@rm -f $@
	@$(if $(filter release,$(VARIANT)),gcc-ar,ar) rcs $@ $^
$(B)/tests/%: $(B)/tests/unit/%.o $(B)/libtest.a $(B)/libcommon.a
	@mkdir -p $(dir $@)
	@echo "  LD $@"; $(CC) $(LDFLAGS_ALL) -o $@ $< $(B)/libtest.a $(B)/libcommon.a $(LIBS_COMMON) $(LIBS_TEST) -lcmocka
$(B)/replay/%: $(B)/tests/fuzz/%.o $(B)/tests/fuzz/replay_main.o $(B)/libtest.a $(B)/libcommon.a
	@mkdir -p $(dir $@)
	@echo "  LD $@"; $(CC) $(LDFLAGS_ALL) -o $@ $(filter %.o,$^) $(B)/libtest.a $(B)/libcommon.a $(LIBS_COMMON) $(LIBS_TEST)
.SECONDARY:
# exchange_world.h stands in for whole modules; what else of them is asked for comes from the library, beside it
WORLD := $(addprefix $(B)/,tests/stall_test tests/rotate_test replay/exchange_h1_fuzz replay/exchange_h2_fuzz fuzzers/exchange_h1_fuzz fuzzers/exchange_h2_fuzz)
$(WORLD): LDFLAGS_ALL += -Wl,-z,muldefs

tests: $(UNIT) $(REPLAY)

check: all tests
	VARIANT=$(VARIANT) BIN=$(abspath $(BIN)) BUILD=$(abspath $(B)) bash tests/run.sh

demo: all
	BIN=$(abspath $(BIN)) bash tests/e2e/demo.sh

bench: all $(B)/bench/policy
	$(B)/bench/policy
	BIN=$(abspath $(BIN)) bash tests/bench/run.sh
	BIN=$(abspath $(BIN)) bash tests/bench/names.sh

# What a mint costs without messages, and how many instructions (tests/bench/names.sh counts what messages cost too).
$(B)/bench/mint_ours: $(B)/tests/bench/mint_ours.o $(B)/libtest.a $(B)/libcommon.a
	@mkdir -p $(dir $@)
	@echo "  LD $@"; $(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_COMMON) $(LIBS_TEST)

# How fast scrubbing is.
bench-scrub: $(B)/bench/scrub
	@$<
$(B)/bench/scrub: $(B)/tests/bench/scrub.o $(B)/libtest.a $(B)/libcommon.a
	@mkdir -p $(dir $@)
	@echo "  LD $@"; $(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS_COMMON) $(LIBS_TEST)

# The table against the reference evaluator, a million times, and `policy diff` against brute force: make property
# [PROPERTY_PAIRS=1000000] [DIFF_PAIRS=500] [PROPERTY_SEED=1]
PROPERTY_PAIRS ?= 1000000
DIFF_PAIRS ?= 500
$(B)/bench/%: $(B)/tests/bench/%.o $(B)/libtest.a $(B)/libcommon.a
	@mkdir -p $(dir $@)
	@echo "  LD $@"; $(CC) $(LDFLAGS_ALL) -o $@ $< $(B)/libtest.a $(B)/libcommon.a $(LIBS_COMMON) $(LIBS_TEST)

property: $(B)/tests/property_test $(B)/tests/diff_test
	PROPERTY_PAIRS=$(PROPERTY_PAIRS) PROPERTY_SEED=$(PROPERTY_SEED) timeout 1200 $(B)/tests/property_test
	DIFF_PAIRS=$(DIFF_PAIRS) PROPERTY_SEED=$(PROPERTY_SEED) timeout 1200 $(B)/tests/diff_test

# Long fuzzing: make fuzz [FUZZ_SECONDS=600] [FUZZ_TARGET=h1_head_fuzz]
FUZZ_SECONDS ?= 60
FUZZ_TARGET ?= $(FUZZ)
fuzz:
	$(MAKE) VARIANT=fuzz $(addprefix build/fuzz/fuzzers/,$(FUZZ_TARGET))
	@set -e; for f in $(FUZZ_TARGET); do mkdir -p build/fuzz/corpus/$$f tests/fuzz/corpus/$${f%_fuzz}; \
		build/fuzz/fuzzers/$$f -max_total_time=$(FUZZ_SECONDS) -timeout=10 build/fuzz/corpus/$$f tests/fuzz/corpus/$${f%_fuzz}; done
$(B)/fuzzers/%: $(B)/tests/fuzz/%.o $(B)/libtest.a $(B)/libcommon.a
	@mkdir -p $(dir $@)
	@echo "  LD $@"; $(CC) $(LDFLAGS_ALL) -fsanitize=fuzzer -o $@ $< $(B)/libtest.a $(B)/libcommon.a $(LIBS_COMMON) $(LIBS_TEST)

# Whole exchanges, an hour each, at the same time: what they find stays in build/fuzz/findings, the log beside it.
FUZZ_HOUR := exchange_h1_fuzz exchange_h2_fuzz
fuzz-hour: FUZZ_SECONDS = 3600
fuzz-hour:
	$(MAKE) VARIANT=fuzz $(addprefix build/fuzz/fuzzers/,$(FUZZ_HOUR))
	@mkdir -p build/fuzz/findings $(addprefix build/fuzz/corpus/,$(FUZZ_HOUR)); failed=; pids=; \
	for f in $(FUZZ_HOUR); do \
		build/fuzz/fuzzers/$$f -max_total_time=$(FUZZ_SECONDS) -timeout=25 -max_len=1500 -entropic=0 -rss_limit_mb=2048 -artifact_prefix=build/fuzz/findings/$$f. \
			build/fuzz/corpus/$$f tests/fuzz/corpus/$${f%_fuzz} >build/fuzz/findings/$$f.log 2>&1 & pids="$$pids $$!"; \
	done; \
	for p in $$pids; do wait $$p || failed=1; done; \
	for f in $(FUZZ_HOUR); do echo "$$f:"; tail -n 3 build/fuzz/findings/$$f.log; done; [ -z "$$failed" ]

# Long runs; kill200 takes about seven minutes.
kill200: all
	BIN=$(abspath $(BIN)) BUILD=$(abspath $(B)) bash tests/soak/kill200.sh

# Ten gibibytes in one response, and what the worker's memory does meanwhile.
transfer10g: all
	TRANSFER_MB=10240 BIN=$(abspath $(BIN)) BUILD=$(abspath $(B)) bash tests/e2e/transfer.sh

# Vault's tests against a real server, built from its published Go modules.
vault-real: all
	BIN=$(abspath $(BIN)) BUILD=$(abspath $(B)) bash tests/vault/run.sh

SOAK_MINUTES ?= 30
soak:
	$(MAKE) VARIANT=san
	VARIANT=san BIN=$(abspath build/san/bin) BUILD=$(abspath build/san) SOAK_MINUTES=$(SOAK_MINUTES) bash tests/soak/soak.sh

lint:
	bash tests/lint/run.sh

install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/man/man5 $(DESTDIR)$(PREFIX)/share/man/man8 \
		$(DESTDIR)$(PREFIX)/share/sallyport/policies
	install -m 755 $(addprefix bin/,$(PROGRAMS)) $(DESTDIR)$(PREFIX)/bin/
	for s in 1 5 8; do for f in docs/man/*.$$s; do [ -e $$f ] && install -m 644 $$f $(DESTDIR)$(PREFIX)/share/man/man$$s/ || true; done; done
	install -m 644 configs/gateway.yaml $(DESTDIR)$(PREFIX)/share/sallyport/
	for f in configs/policies/*.yaml; do [ -e $$f ] && install -m 644 $$f $(DESTDIR)$(PREFIX)/share/sallyport/policies/ || true; done

clean:
	rm -rf build bin

-include $(shell find $(B) -name '*.d' 2>/dev/null)
