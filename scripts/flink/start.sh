#!/bin/bash
# Start Beam's Flink job server and Python workers on this machine, with an embedded Flink or (FLINK=cluster) a job
# manager and two task managers. Prints the options with which a run uses it:  beam run NAME ... -- $(scripts/flink/start.sh)
. "$(dirname "$0")/../engines.sh"
need_jars flink
need_command java openjdk-17-jre-headless
need_free "$POOL_PORT" "$JOB_PORT"
mkdir -p "$STATE/scratch" "$STATE/flink-conf"

await_workers() {  # await_workers NUMBER: until so many task managers have told the job manager that they are there
    "$PYTHON" - "http://127.0.0.1:$((PORT + 3))/taskmanagers" "$1" <<'ASK' && return
import json, sys, time, urllib.request
until = time.monotonic() + 60
while len(json.load(urllib.request.urlopen(sys.argv[1]))["taskmanagers"]) < int(sys.argv[2]):
    if time.monotonic() > until:
        sys.exit(1)
    time.sleep(0.25)
ASK
    fail_with_log "not all task managers have come up in a minute" task-manager1
}

runner=$(ls "$PARTS"/flink/jars/beam-runners-flink-*.jar)
master='[local]'
if [ "${FLINK:-embedded}" = cluster ]; then
    master=127.0.0.1:$((PORT + 3))
    need_free "$MASTER_PORT" "$((PORT + 3))"
    cat > "$STATE/flink-conf/flink-conf.yaml" <<CONF
jobmanager.rpc.address: 127.0.0.1
jobmanager.rpc.port: $MASTER_PORT
jobmanager.bind-host: 127.0.0.1
jobmanager.memory.process.size: 1200m
rest.address: 127.0.0.1
rest.port: $((PORT + 3))
taskmanager.host: 127.0.0.1
taskmanager.bind-host: 127.0.0.1
taskmanager.numberOfTaskSlots: 1
taskmanager.cpu.cores: 1
taskmanager.memory.framework.heap.size: 128m
taskmanager.memory.framework.off-heap.size: 128m
taskmanager.memory.task.heap.size: 512m
taskmanager.memory.task.off-heap.size: 0m
taskmanager.memory.managed.size: 128m
taskmanager.memory.network.min: 256m
taskmanager.memory.network.max: 256m
taskmanager.memory.jvm-metaspace.size: 256m
taskmanager.memory.jvm-overhead.min: 192m
taskmanager.memory.jvm-overhead.max: 192m
io.tmp.dirs: $STATE/scratch
classloader.resolve-order: parent-first
CONF
    manager=org.apache.flink.runtime
    start job-manager java -Xmx1g $OPENS -cp "$PARTS/flink/jars/*" \
        $manager.entrypoint.StandaloneSessionClusterEntrypoint --configDir "$STATE/flink-conf"
    await job-manager "$((PORT + 3))"
    for number in 1 2; do
        start "task-manager$number" java -Xmx1g $OPENS -cp "$PARTS/flink/jars/*" \
            $manager.taskexecutor.TaskManagerRunner --configDir "$STATE/flink-conf"
    done
    await_workers 2
fi
start_pool
start job-server java -Xmx2g $OPENS "-Djava.io.tmpdir=$STATE/scratch" -cp "$PARTS/flink/jars/*" \
    org.apache.beam.runners.flink.FlinkJobServerDriver --job-host=127.0.0.1 "--job-port=$JOB_PORT" --artifact-port=0 \
    --expansion-port=0 "--artifacts-dir=$STATE/staged" "--flink-master=$master"
await job-server "$JOB_PORT"
options --parallelism=2 "--files_to_stage=$runner"
