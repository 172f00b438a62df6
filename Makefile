# Each target sets up all it needs from PyPI in .venv (tools/environment.py: under a lock, and only when something changed).
PYTHON ?= python3
RUN := .venv/bin/python

# Tests of what has compiled modules: these are run once more in plain Python.
COMPILED_PACKAGES := tests/unit/test_kernel_choice.py tests/unit/model tests/unit/net tests/property/test_net_frames.py \
	tests/property/test_net_output.py tests/integration/test_net_backlog.py tests/unit/wire/test_codec.py tests/unit/broker/metrics \
	tests/property/test_typed_messages.py tests/property/test_produce.py tests/property/test_fetch.py tests/property/test_replica_fetch.py \
	tests/property/test_fetch_sessions.py tests/unit/broker/data tests/unit/broker/handlers/test_fetch.py tests/unit/broker/handlers/test_produce.py tests/unit/client/producer
COMPILED_PACKAGES += tests/unit/storage tests/property/test_log_twins.py tests/property/test_partition_log.py \
	tests/property/test_tail_reads.py tests/property/test_producer_state.py tests/property/test_follower_append.py \
	tests/simulation/test_cluster_mutants.py
COMPILED_PACKAGES += tests/unit/replication tests/property/test_partition_twins.py
COMPILED_PACKAGES += tests/unit/security tests/unit/broker/requests tests/property/test_authorizer.py
COMPILED_PACKAGES += tests/unit/coordination tests/unit/broker/handlers/test_group_handlers.py tests/property/test_offset_records.py \
	tests/property/test_group_requests.py tests/property/test_transaction_requests.py tests/property/test_classic_groups.py \
	tests/property/test_consumer_groups.py
COMPILED_PACKAGES += tests/unit/broker/quotas tests/property/test_client_quotas.py

.PHONY: help demo up test check coverage format bench compat soak wheels environment clean

help:
	@echo "make demo     set-up, and the main job: a cluster, live orders, an exactly-once Spark pipeline, a verified result"
	@echo "make up       a node on this machine until Ctrl-C (ARGUMENTS=\"--port 9092 --dir data\")"
	@echo "make test     set-up, all checks and every test that needs PyPI alone"
	@echo "make check    ruff, mypy --strict, import layers, the repository's own rules"
	@echo "make coverage which lines the unit, property and integration tests run through, as Python: by package, and in build/coverage/html"
	@echo "make bench    Tidelog beside Apache Kafka and its other peers, as ratios in one run (needs cc, java, go, valgrind and, once, mvn); AGAINST=CHECKOUT: beside the node of another checkout"
	@echo "make compat   against Apache Kafka's own classes, tools and brokers (needs mvn, java, kcat, go, node, npm, chromium, postgresql and mariadb-server)"
	@echo "make soak     the property tests with many more and random examples (SOAK_EXAMPLES=2000), simulated clusters (SOAK_HISTORIES=3000), then processes in turmoil: groups and transactions (SOAK_MINUTES=3), voters, full disks, a replaced node"
	@echo "make wheels   the sdist, and for each CPython from 3.11 on a wheel, into dist/; each is installed and tried (needs cc)"
	@echo "make format   put the source into its canonical form"

environment:
	@$(PYTHON) tools/environment.py dev

demo: environment
	$(RUN) -m examples.orders_demo

up: environment
	.venv/bin/tidelog up $(ARGUMENTS)

test: check
	$(RUN) -m pytest -n 2 --dist worksteal --ignore tests/repo
	TIDELOG_KERNELS=python $(RUN) -m pytest -n 2 --dist worksteal $(COMPILED_PACKAGES)

check: environment
	$(RUN) -m ruff check
	$(RUN) -m ruff format --check
	$(RUN) -m mypy
	.venv/bin/lint-imports
	$(RUN) -m pytest -q tests/repo

coverage: environment
	mkdir -p build/coverage
	TIDELOG_KERNELS=python $(RUN) -m pytest -q -n 2 --dist worksteal --cov --cov-report= tests/unit tests/property tests/integration
	$(RUN) tools/coverage_by_package.py
	$(RUN) -m coverage html -q

format: environment
	$(RUN) -m ruff check --fix
	$(RUN) -m ruff format

bench: environment
	@$(RUN) tools/prerequisites.py cc java mvn go valgrind
	$(RUN) -m benchmarks.all $(if $(AGAINST),--against $(AGAINST))

compat: environment
	@$(RUN) tools/prerequisites.py mvn java javac kcat go node npm postgres mariadbd chromium
	$(RUN) tools/compatibility_report.py

soak: environment
	SOAK_EXAMPLES=$${SOAK_EXAMPLES:-2000} $(RUN) -m pytest -n 2 --timeout 3600 --hypothesis-profile soak tests/property
	$(RUN) -m pytest -s -m soak --timeout 36000 tests/simulation tests/soak

wheels:
	$(PYTHON) tools/wheels.py

clean:
	rm -rf .venv .venv-ready .venv-lock build dist src/tidelog.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src -name '*.so' -delete -o -name '*.stamp' -delete
