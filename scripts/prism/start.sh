#!/bin/bash
# Start Prism and Python workers. Prints the options with which a run uses it:  beam run NAME ... -- $(scripts/prism/start.sh)
. "$(dirname "$0")/../engines.sh"
need "$PARTS/prism/prism" scripts/prism/setup.sh
need_free "$POOL_PORT" "$JOB_PORT"
start_pool
start prism "$PARTS/prism/prism" "-job_port=$JOB_PORT" -serve_http=false -log_level=warn
await prism "$JOB_PORT"
options
