# make setup · make demo · make demo-recipes · make test · make lint · make bench · make learn · make loop · make docs — each sets up first what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

# Without the bytecode that this variable keeps from being written, each process that the tests start compiles all modules.
unexport PYTHONDONTWRITEBYTECODE

# The files of a marked set are those that name its mark, or a fixture that has it: pytest would import all others, too,
# in each process, which takes 15 s of processor time.
marked = $(sort $(shell grep -rlE --include='test_*.py' 'mark\.$(1)\b' tests))
STORES = $(sort $(call marked,stores) $(shell grep -rlw --include='test_*.py' bucket tests))

LOOP_SCENES ?= 600

RECIPES := judge_think_answer dual_stream rubric_curriculum crop_and_answer executable_cot

.PHONY: setup demo demo-recipes test coverage lint bench learn loop docs test-browser test-dataflow test-faults test-installs test-loaders test-ranks test-sandbox test-slow test-stores test-trl test-vllm setup-vllm setup-spark test-spark test-spark-full setup-flink test-flink setup-prism test-prism test-engines-full clean

$(VENV)/.core: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	touch $@

$(VENV)/.all: $(VENV)/.core
	$(PIP) -e '.[dev,gemini,gs,s3,sandbox,train,video,vision]'
	touch $@

setup: $(VENV)/.all  ## everything but the vLLM server's own environment

demo: $(VENV)/.core  ## the main pipeline on a bundled sample: no key, no GPU, no torch
	$(BIN)/beam run pipelines/grounded_cot.py --input data/sample --output runs/demo

demo-recipes: $(RECIPES:%=demo-%)  ## the other papers' pipelines, likewise

demo-%: $(VENV)/.core
	$(BIN)/beam run pipelines/$*.py --input data/sample --output runs/demo-$*

$(VENV)/.sandbox: $(VENV)/.core
	$(PIP) -e '.[sandbox]'
	touch $@

demo-executable_cot: $(VENV)/.sandbox  ## needs bubblewrap: apt-get install bubblewrap libseccomp2

test: $(VENV)/.all  ## the fast tests, on three processes: on two cores a fifth of the time is spent waiting
	$(BIN)/python -m pytest -n 3 --dist worksteal

coverage: $(VENV)/.all  ## lines and branches that the fast tests reach, in the commands that they start, too; build/coverage/html
	mkdir -p build/coverage
	$(BIN)/python -m pytest -n 3 --dist worksteal --cov --cov-report=term:skip-covered --cov-report=html

test-faults: $(VENV)/.all  ## processes that are killed, servers that go away, memory that must not grow
	$(BIN)/python -m pytest -n 3 --dist worksteal -m faults $(call marked,faults)

test-slow: $(VENV)/.all  ## loops, trainings, long runs and texts: a run is made once for all tests of its file
	$(BIN)/python -m pytest -n 2 --dist loadfile -m slow $(call marked,slow)

test-ranks: $(VENV)/.all  ## trainings with --gpus 2 on two processes of the CPU, compared with one process, killed and resumed
	$(BIN)/python -m pytest -m ranks tests/trainer

lint: $(VENV)/.all
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: $(VENV)/.trl
	set -e; for file in benchmarks/bench_*.py; do echo "== $$file"; $(BIN)/python $$file; done

learn: $(VENV)/.all  ## what verified data is worth: two arms, and 50 steps of GRPO and its control; about 20 minutes on 2 cores
	$(BIN)/python benchmarks/learning/learn.py
	$(BIN)/python benchmarks/learning/reinforce.py --short

loop: $(VENV)/.all  ## curation, SFT, GRPO and evaluation in one command, with drawn scenes and a tiny model; runs/loop/loop.html
	test -e runs/loop-questions/records.jsonl || $(BIN)/python benchmarks/learning/scenes.py runs/loop-questions --scenes $(LOOP_SCENES) --seed 1 --prefix scene
	$(BIN)/beam loop grounded_cot --input runs/loop-questions --model tiny --output runs/loop --config benchmarks/learning/loop.toml

.venv-docs/.all: docs/requirements.txt constraints.txt
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -r docs/requirements.txt
	touch $@

docs: .venv-docs/.all  ## README.md and docs/ as a site with search, in build/site; a broken link is an error
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --quiet

$(VENV)/.trl: $(VENV)/.all
	$(PIP) -e '.[train,trl]'
	touch $@

test-trl: $(VENV)/.trl  ## the trainer's loss and gradients against TRL's, exports and our tool in TRL's loops (needs bubblewrap)
	$(BIN)/python -m pytest -m trl $(call marked,trl)

$(VENV)/.browser: $(VENV)/.all
	$(PIP) -e '.[browser]'
	touch $@

test-browser: $(VENV)/.browser  ## the pages of real runs in a headless Chromium
	@command -v chromium || command -v chromium-browser || command -v google-chrome || { echo 'there is no browser: apt-get install chromium' >&2; exit 1; }
	$(BIN)/python -m pytest -m browser $(call marked,browser)

test-loaders: $(VENV)/.all  ## exports in the data loaders of verl, ms-swift, LLaMA-Factory, OpenRLHF, polars and webdataset, and our tools (needs bubblewrap)
	sh tests/publishing/exports/loaders/make_venv.sh $(BIN)/python
	PYTHONPATH=. .venv-loaders/bin/python -m pytest -m loaders $(call marked,loaders)

test-sandbox: $(VENV)/.all  ## programs that try to get out of the sandbox, as this user and as one without rights, and what runs code in it
	@command -v bwrap || { echo 'there is no bubblewrap: apt-get install bubblewrap libseccomp2' >&2; exit 1; }
	$(BIN)/python -m pytest -n 2 --dist loadfile -m sandbox $(call marked,sandbox)

test-stores: $(VENV)/.all  ## whole runs with input, cache and output in S3 and GCS, as moto and a stand-in have them, and all else with GCS
	$(BIN)/python -m pytest -n 3 --dist worksteal -m stores $(STORES)

test-dataflow: $(VENV)/.gcp  ## submissions to Dataflow, against a stand-in for it and for Cloud Storage
	$(BIN)/python -m pytest -m dataflow $(call marked,dataflow)

test-installs: $(VENV)/.all  ## the wheel in fresh environments, alone and with each extra, `make demo` on the next Python, a user's own code, and the tutorial
	$(BIN)/python -m pytest -m installs $(call marked,installs)

$(VENV)/.gcp: $(VENV)/.all
	$(PIP) -e '.[gcp]'
	touch $@

setup-vllm: $(VENV)/.all  ## a vLLM CPU server in an environment of its own
	bash tests/vllm/make_venv.sh $(PYTHON)

test-vllm: setup-vllm  ## the pipeline against a real vLLM server with a tiny random Qwen3-VL
	$(BIN)/python -m pytest -m vllm $(call marked,vllm)

setup-spark: $(VENV)/.all  ## a Spark cluster with Beam's job server, from Maven's and PyPI's parts
	PYTHON=$(CURDIR)/$(BIN)/python scripts/spark/setup.sh

test-spark: setup-spark  ## the pipeline on a Spark cluster of two workers: a healthy run, and one with an executor killed
	$(BIN)/python -m pytest -m 'spark and not full' tests/spark

test-spark-full: setup-spark  ## five healthy runs, and kills in every part of a run
	$(BIN)/python -m pytest -m spark tests/spark

setup-flink: $(VENV)/.all  ## Flink with Beam's job server, from Maven's parts
	PYTHON=$(CURDIR)/$(BIN)/python scripts/flink/setup.sh

test-flink: setup-flink  ## the pipeline on Flink, in its job server and with two task managers
	$(BIN)/python -m pytest -m 'flink and not full' tests/engines

setup-prism: $(VENV)/.all  ## Prism, built with PyPI's Go
	PYTHON=$(CURDIR)/$(BIN)/python scripts/prism/setup.sh

test-prism: setup-prism  ## the pipeline on Prism
	$(BIN)/python -m pytest -m 'prism and not full' tests/engines

test-engines-full: setup-flink setup-prism  ## both, and every recipe on them
	$(BIN)/python -m pytest -m 'flink or prism' tests/engines

clean:
	rm -rf $(VENV) .venv-docs .venv-loaders .venv-vllm .engines runs build dist *.egg-info
