# A thin front for Meson and Ninja; CONTRIBUTING.md says what lies behind each target.
BUILD  ?= build
PREFIX ?= /usr/local
SECONDS_EACH ?= 60
N ?= 60

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

# gpumend.exe, by the cross compiler; the static libraries are built from Debian's sources.
windows: all
	@scripts/setup windows
	@[ -e $(BUILD)-windows/build.ninja ] || meson setup --cross-file scripts/windows.ini \
		-Dnative="$(abspath $(BUILD))" $(BUILD)-windows
	@ninja -C $(BUILD)-windows gpumend.exe

# The Python package for Windows in dist/, around that gpumend.exe.
wheel-windows: windows
	@scripts/wheel-windows $(BUILD)-windows/gpumend.exe dist

# The executable and the C library for aarch64, by Debian's cross compiler.
aarch64: all
	@scripts/setup test
	@[ -e $(BUILD)-aarch64/build.ninja ] || scripts/aarch64 $(BUILD) $(BUILD)-aarch64
	@ninja -C $(BUILD)-aarch64 gpumend installed

test-windows: windows
	@scripts/setup test
	@python3 tests/run.py --build $(BUILD) $@

test test-long test-scenarios test-stacks test-memory test-fleet test-setup test-machines differential bench:
	@scripts/setup $(if $(filter bench,$@),bench,test)
	@$(MAKE) --no-print-directory all
	@python3 tests/run.py --build $(BUILD) $@

# Every share, the tables of causes, and each log that is not got right.
test-explain:
	@scripts/setup build
	@$(MAKE) --no-print-directory all
	@python3 tests/explain/generality.py
	@python3 tests/explain/run.py $(BUILD)/gpumend --misses

# One changed operator or constant at a time: which suite notices?
mutants:
	@scripts/setup test
	@python3 tests/mutants.py --count $(N)

fuzz:
	@scripts/setup test
	@tests/fuzz/run --seconds $(SECONDS_EACH)

# The executable, the libraries with their header, the manual and the completion.
install: $(BUILD)/build.ninja
	@meson configure $(BUILD) -Dprefix=$(PREFIX)
	@ninja -C $(BUILD) installed
	@DESTDIR=$(DESTDIR) meson install -C $(BUILD) --no-rebuild --quiet

# The Python package in dist/; the tools for it come from the package index.
wheel:
	@scripts/setup build
	@scripts/wheel dist

# Every package for x86-64 and aarch64, and the wheel for Windows, in dist/ (docs/RELEASE.md).
dist: aarch64 windows
	@ninja -C $(BUILD) installed
	@rm -rf $(BUILD)-wheel
	@scripts/wheel $(BUILD)-wheel
	@scripts/dist dist $(BUILD) $(BUILD)-aarch64 --wheel $(BUILD)-wheel/*.whl \
		--windows $(BUILD)-windows/gpumend.exe

# The packages are installed and used in fresh root file systems.
test-packages: aarch64 windows
	@ninja -C $(BUILD) installed
	@python3 tests/run.py --build $(BUILD) $@

# What `run` puts into programs of aarch64, and the probe, under qemu's user mode.
test-emulated: aarch64
	@python3 tests/run.py --build $(BUILD) $@

# What a release consists of, in dist/ (docs/RELEASE.md).
release: wheel
	@$(MAKE) --no-print-directory all
	@ninja -C $(BUILD) installed
	@scripts/release $(BUILD) dist

clean:
	rm -rf $(BUILD) $(BUILD)-*

.PHONY: all run windows wheel-windows aarch64 test test-long test-explain test-scenarios test-stacks test-memory test-fleet test-setup test-windows test-packages test-machines test-emulated differential bench mutants fuzz install wheel dist release clean
