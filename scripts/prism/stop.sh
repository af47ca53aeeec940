#!/bin/bash
# End the cluster that start.sh began, with all its workers.
. "$(dirname "$0")/../engines.sh"
stop_all
