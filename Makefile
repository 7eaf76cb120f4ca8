# Every target is quiet while all is well.
MAKEFLAGS += --no-print-directory
export CARGO_TERM_QUIET := true
# Everything is built once here, and nobody looks at a backtrace: without records for the next build and without lines of code,
# the tests are built a third faster. What a bare cargo has built stays beside it.
export CARGO_INCREMENTAL ?= 0
export CARGO_PROFILE_DEV_DEBUG ?= 0

# For `make demo`: NODES=url,url,... for masters of your own, BREAK=1 to leave a lock out, ARGS for anything else.
DEMO_ARGS := $(if $(NODES),--nodes '$(NODES)') $(if $(BREAK),--break-lock) $(ARGS)

.DEFAULT_GOAL := help
.PHONY: help demo test check both test-native test-loaded test-compose test-servers sim scale loom fuzz mutants chaos soak chaos-toxiproxy experiment-pauses model instructions lint docs
.PHONY: powerset deny advisories minimal-versions msrv platforms semver package
.PHONY: alerts console monitoring test-build check-build run-on-servers run-command run-on-servers-and-chaos run-in-containers run-doc run-computing run-simulation run-schedules run-chaos run-builds run-models bench bench-quick bench-report bench-lint beside cluster-up cluster-down need-cargo

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | while IFS='	' read -r name text; do \
		printf '%-17s %s\n' "$$name" "$$text"; done

demo: need-cargo ## Show the locks at work on real masters (BREAK=1, NODES=url,url,...)
	@$(if $(NODES),,scripts/install-redis.sh)
	@cargo build --release -q -p multilock-cli -p multilock-demo
	@target=$${CARGO_TARGET_DIR:-target}; $$target/release/multilock-demo $(DEMO_ARGS)

# Packages that are built together share their dependencies: each set of packages has them once, with the features of all.
TESTED := -p multilock -p multilock-cli
CHECKED := $(TESTED) $(addprefix -p multilock-,browser model package monitoring cron-example scale experiments loom)
export PACKAGES ?= $(TESTED)
# For tests that build: with the same packages, nothing is built twice.
export MULTILOCK_TEST_PACKAGES = $(PACKAGES)
CARGO_TEST = cargo test -q --all-features $(PACKAGES)

# Everything is built before, so that nothing that runs side by side waits for another's build. Tests that compute
# yield to tests that talk to servers, which are timed; these start real servers.
TESTS := $(notdir $(patsubst %/main.rs,%,$(wildcard tests/*/main.rs)) $(basename $(wildcard tests/*.rs)))
ON_SERVERS := examples real
COMPUTING := $(filter-out $(ON_SERVERS) chaos simulation,$(TESTS))
# In containers the tests run one after the other: these show connections, failing masters and waiting there.
IN_CONTAINERS := connect outages waiting contention
# A binary of tests takes four times as long to build where the crate is optimized, and the simulation runs for three
# times as long where it is not: so the short form is not.
OPTIMIZED := --test simulation --config profile.dev.package.multilock.opt-level=2
SIDE_BY_SIDE = $(MAKE) -j --output-sync=target
# Lanes for an engine that may be missing. The remark comes first, so that the last lines are always the test runners' own.
IF_DOCKER = $$(if docker info >/dev/null 2>&1; then echo $(1); else \
	echo "no docker engine answers: the tests in containers are left out" >&2; fi)
# The same for Toxiproxy, which scripts/toxiproxy.sh builds where the Go module can be had.
IF_TOXIPROXY = $$(if [ -n "$$TOXIPROXY" ] || command -v toxiproxy-server >/dev/null 2>&1; then echo $(1); else \
	echo "no toxiproxy-server is there (scripts/toxiproxy.sh builds it): its faults are left out" >&2; fi)

test: test-build ## All behaviour: library, simulation, real servers, command, examples; containers where an engine answers
	@$(SIDE_BY_SIDE) run-on-servers run-command run-doc run-computing run-simulation $(call IF_DOCKER,run-in-containers)

test-native: test-build ## The same without containers
	@$(SIDE_BY_SIDE) run-on-servers run-command run-doc run-computing run-simulation

test-loaded: test-build ## The tests that go by real clocks, beside four busy loops (RUNS=3: three times in a row)
	@RUNS=$(or $(RUNS),1) scripts/test-loaded.sh $(MAKE) run-on-servers run-command

check: export PACKAGES := $(CHECKED)
check: lint check-build ## Longer checks: lint, schedules, model, loom, chaos, fuzz, sets of features, instruction counts, packages, alerts
	@$(SIDE_BY_SIDE) run-builds run-models run-chaos run-schedules $(call IF_DOCKER,test-compose)

both: export PACKAGES := $(CHECKED)
both: lint check-build ## test and check side by side, as CI does
	@$(SIDE_BY_SIDE) run-on-servers-and-chaos run-builds run-models run-doc run-computing run-schedules $(call IF_DOCKER,test-compose)

# All installations happen here: two lanes must not install at once.
test-build: need-cargo
	@scripts/install-redis.sh
	@$(CARGO_TEST) --no-run

check-build: need-cargo
	@scripts/install-redis.sh
	@scripts/install-faketime.sh
	@scripts/install-prometheus.sh
	@scripts/install-chromium.sh
	@command -v valgrind >/dev/null 2>&1 || scripts/install-package.sh valgrind valgrind
	@command -v c++ >/dev/null 2>&1 || scripts/install-package.sh g++ "a C++ compiler, which builds libFuzzer,"
	@$(CARGO_TEST) --no-run
	@$(CARGO_TEST) --no-run $(OPTIMIZED)

# They wait for answers and for leases to end, most of the time.
run-on-servers:
	@MULTILOCK_TEST_CLUSTER=native $(CARGO_TEST) $(addprefix --test ,$(ON_SERVERS)) -- --test-threads=4

run-command:
	@$(CARGO_TEST) --bin multilock --test command -- --test-threads=6

run-in-containers:
	@scripts/test-compose.sh $(IN_CONTAINERS)

run-computing:
	@nice $(CARGO_TEST) --lib $(addprefix --test ,$(COMPUTING))

# One processor compiles them all.
run-doc:
	@nice $(CARGO_TEST) --doc

# Every directed schedule, and few at random.
run-simulation:
	@SIM_RUNS=20 nice $(CARGO_TEST) --test simulation -- --skip sweep_of --skip a_seed_repeats_itself

run-schedules:
	@nice $(CARGO_TEST) $(OPTIMIZED)

# All are timed.
run-on-servers-and-chaos:
	@$(MAKE) run-chaos
	@$(MAKE) run-on-servers
	@$(MAKE) run-command

run-chaos:
	@MULTILOCK_TEST_CLUSTER=native $(CARGO_TEST) --test chaos
	@for lane in $(call IF_TOXIPROXY,chaos-toxiproxy); do $(MAKE) $$lane SECONDS=60; done

# Builds that differ from the builds of the tests. They come one after the other, most of them on one processor, and
# take the longest: so they give way to what is timed, and what computes gives way to them.
run-builds:
	@nice -n 5 $(MAKE) instructions
	@FUZZ_RUNS=50000 nice -n 5 scripts/fuzz.sh >/dev/null
	@nice -n 5 $(MAKE) powerset

run-models:
	@nice $(MAKE) alerts
	@nice $(CARGO_TEST) --test protocol --test models --test package --test readme --test three_hosts --test growth --test pauses --bin multilock-monitoring --bin multilock-scale --bin multilock-experiments --test browser

instructions: need-cargo ## Count a client's instructions for each operation, against committed figures (UPDATE=1)
	@command -v valgrind >/dev/null 2>&1 || scripts/install-package.sh valgrind valgrind
	@cargo run --release -q -p multilock-instructions

alerts: ## The tests of contrib/prometheus/alerts.yml
	@scripts/install-prometheus.sh
	@promtool test rules contrib/prometheus/alerts_test.yml >/dev/null

console: need-cargo ## The page of multilock console in a headless Chromium, and the pictures of it: docs/console-light.png, docs/console-dark.png
	@scripts/install-redis.sh
	@scripts/install-chromium.sh
	@cargo build -q --all-features -p multilock-cli
	@PICTURES=1 cargo test -q --all-features -p multilock-browser

monitoring: need-cargo ## Failing masters under a real Prometheus, and a picture of it: docs/monitoring.svg (90 s)
	@scripts/install-redis.sh
	@scripts/install-prometheus.sh
	@cargo run --release -q -p multilock-monitoring

model: need-cargo ## Explore the protocol exhaustively, and refute weaker forms of it
	@cargo run -q -p multilock-model

test-compose: need-cargo ## The tests on real masters, against those of docker-compose.yml
	@scripts/test-compose.sh

test-servers: need-cargo ## The same on Redis 6.0 to 8.0, Valkey 8.1 and 9.1 and Redict 7.3 of Debian's suites (ONLY="redis-6.0", COMPOSE=1 or 2)
	@scripts/test-servers.sh $(ONLY)

chaos: need-cargo ## Break real masters, links, clocks and clients, and check every promise (CHAOS_SEED, CHAOS_SECONDS)
	@scripts/install-redis.sh
	@scripts/install-faketime.sh
	@scripts/chaos.sh

chaos-toxiproxy: need-cargo ## Every toxic of Toxiproxy for SECONDS (180), with masters killed and frozen, and the longest waits (CHAOS_SEED)
	@scripts/install-redis.sh
	@TOXIPROXY=$$(scripts/toxiproxy.sh) && export TOXIPROXY && MULTILOCK_TEST_CLUSTER=native CHAOS=toxiproxy \
		CHAOS_SECONDS=$(or $(SECONDS),180) $(CARGO_TEST) --test chaos

soak: need-cargo ## Faults in turn and load for MINUTES (10), with figures each minute of everything that may grow (CHAOS_SEED)
	@scripts/install-redis.sh
	@MULTILOCK_TEST_CLUSTER=native CHAOS=soak SOAK_MINUTES=$(or $(MINUTES),10) \
		$(CARGO_TEST) --test chaos

experiment-pauses: need-cargo ## Clients and masters that are stopped, as in Jepsen's test: losses under five ways of locking (SECONDS=600)
	@scripts/install-redis.sh
	@cargo run --release -q -p multilock-experiments -- $(SECONDS)

sim: need-cargo ## Random schedules on masters in memory (SIM_RUNS=n, SIM_SEED=n repeats one)
	@scripts/sim.sh

scale: need-cargo ## How all grows to 1,000 clients, 100,000 names and three regions, and docs/growth.svg: 19 virtual hours (MINUTES of each row: 60)
	@cargo run --release -q -p multilock-scale -- $(MINUTES)

loom: need-cargo ## The pipe, the inbox and the line of tasks under every interleaving of their threads
	@cargo test -q -p multilock-loom

fuzz: need-cargo ## Replies, URLs and the environment from libFuzzer, SECONDS (60) each (ONLY="framing replies settings")
	@FUZZ_SECONDS=$(or $(SECONDS),60) ONLY='$(ONLY)' scripts/fuzz.sh

mutants: need-cargo ## Break the crate on purpose, rule by rule, and have the simulation notice
	@scripts/mutants.sh

lint: need-cargo docs ## Formatting, clippy and documentation, no warning allowed
	@cargo fmt --all --check
	@cargo clippy -q -p multilock -p multilock-model -p multilock-test-support -p multilock-demo -p multilock-instructions -p multilock-cli -p multilock-package -p multilock-monitoring -p multilock-beside -p multilock-browser -p multilock-cron-example -p multilock-scale -p multilock-experiments --all-targets --all-features -- -D warnings
	@cargo clippy -q -p multilock-loom --lib --test models -- -D warnings

# The JSON goes first: rustdoc clears its folder.
RUSTDOC = RUSTDOC=$(CURDIR)/scripts/rustdoc.sh
docs: need-cargo ## The documentation as docs.rs builds it, with no warning and no dead link: target/doc/multilock
	@$(RUSTDOC) cargo rustdoc -q -p multilock --lib --all-features -- -Zunstable-options --output-format json
	@$(RUSTDOC) RUSTDOCFLAGS="--cfg docsrs -Dwarnings" cargo doc -q --no-deps -p multilock --all-features
	@cargo test -q -p multilock-package --test built_docs

powerset: need-cargo ## Clippy with every set of the features
	@scripts/powerset.sh

deny: need-cargo ## Licences, duplicates and sources of the dependencies, on every platform, by deny.toml
	@scripts/install-tool.sh cargo-deny
	@cargo deny --workspace check licenses bans sources

advisories: need-cargo ## Known advisories against the dependencies: downloads the RustSec database
	@scripts/install-tool.sh cargo-deny
	@cargo deny --workspace check advisories

minimal-versions: need-cargo ## Unit tests with the oldest dependencies that Cargo.toml allows
	@scripts/minimal-versions.sh

msrv: need-cargo ## The oldest Rust that Cargo.toml names, installed by rustup
	@scripts/msrv.sh

platforms: need-cargo ## Whether it compiles for Windows, macOS, FreeBSD, musl on ARM and 32-bit Linux (ONLY="x86_64-unknown-freebsd")
	@scripts/platforms.sh $(ONLY)

semver: need-cargo ## Public items against the last release, or a commit (SINCE=v0.1.0)
	@scripts/semver.sh $(SINCE)

package: need-cargo ## Pack the library and the command as for the registry, and build the packages
	@cargo package -q --locked -p multilock -p multilock-cli

bench: bench-lint ## Every scenario beside the limit and other crates, in minutes (ONLY="S1 S7", RUNS=5: the median)
	@scripts/install-redis.sh
	@scripts/install-faketime.sh
	@cargo run --release -q -p multilock-bench -- run $(if $(RUNS),--runs $(RUNS)) $(ONLY)

bench-quick: need-cargo ## A subset of it, in two minutes
	@scripts/install-redis.sh
	@scripts/install-faketime.sh
	@cargo run --release -q -p multilock-bench -- run --quick $(if $(RUNS),--runs $(RUNS)) $(ONLY)

bench-report: need-cargo ## Draw the last run into docs/performance
	@cargo run --release -q -p multilock-bench -- report

# Not in `lint`: the other crates that it compares with would have to be built there.
bench-lint: need-cargo ## Clippy and the tests of the bench itself
	@cargo clippy --release -q -p multilock-bench --all-targets -- -D warnings
	@cargo test --release -q -p multilock-bench

beside: need-cargo ## The locks beside the originals of other languages, for the same names and in speed (BESIDE="java go js", ONLY, SECONDS, RUNS)
	@scripts/install-redis.sh
	@BESIDE_SECONDS=$(or $(SECONDS),6) RUNS=$(or $(RUNS),5) ONLY='$(ONLY)' scripts/beside.sh $(BESIDE)

cluster-up: ## Start the five masters of docker-compose.yml and wait until they are healthy
	@scripts/cluster.sh up

cluster-down: ## Remove them with their data
	@scripts/cluster.sh down

need-cargo:
	@command -v cargo >/dev/null 2>&1 || { \
		echo "cargo is missing; install Rust from https://rustup.rs (1.88 or later)" >&2; exit 1; }
