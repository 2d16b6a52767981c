# A thin front for Meson and Ninja; CONTRIBUTING.md says what lies behind each target.
BUILD  ?= build
PREFIX ?= /usr/local
SECONDS_EACH ?= 60
MANDIR  = $(PREFIX)/share/man/man1
BASHDIR = $(PREFIX)/share/bash-completion/completions
DOCDIR  = $(PREFIX)/share/doc/gpumend

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD) gpumend

$(BUILD)/build.ninja:
	@scripts/setup --check build
	meson setup $(BUILD)

# Findings (status 1) are a result of `check`, not a failure of make.
run:
	@scripts/setup build
	@$(MAKE) --no-print-directory all
	@$(BUILD)/gpumend check; status=$$?; \
	case $$status in \
	0) ;; \
	1) echo "(exit status 1: check found what is told above)" ;; \
	*) exit $$status ;; \
	esac

test test-scenarios differential bench:
	@scripts/setup $(if $(filter bench,$@),bench,test)
	@$(MAKE) --no-print-directory all
	@python3 tests/run.py --build $(BUILD) $@

fuzz:
	@scripts/setup test
	@tests/fuzz/run --seconds $(SECONDS_EACH)

install: all
	install -D -m 755 $(BUILD)/gpumend $(DESTDIR)$(PREFIX)/bin/gpumend
	install -D -m 644 man/gpumend.1 $(DESTDIR)$(MANDIR)/gpumend.1
	install -D -m 644 completion/gpumend.bash $(DESTDIR)$(BASHDIR)/gpumend
	install -D -m 644 -t $(DESTDIR)$(DOCDIR) README.md LICENSE docs/json.md docs/json/*.json

clean:
	rm -rf $(BUILD) $(BUILD)-*

.PHONY: all run test test-scenarios differential bench fuzz install clean
