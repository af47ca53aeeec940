# What the scripts of the engines share; they source it. It starts processes, each the leader of a group, and stops those.
#   ENGINE_PARTS   what setup.sh fetched: jars, Spark, Prism       (the repository's .engines)
#   ENGINE_STATE   logs, process ids and scratch files of a cluster (ENGINE_PARTS/state)
#   ENGINE_PORT    the first of the dozen ports that a cluster uses (7070)
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PARTS=${ENGINE_PARTS:-$ROOT/.engines}
STATE=${ENGINE_STATE:-$PARTS/state}
PORT=${ENGINE_PORT:-7070}
POOL_PORT=$PORT JOB_PORT=$((PORT + 1)) MASTER_PORT=$((PORT + 2))
PYTHON=${PYTHON:-$ROOT/.venv/bin/python}

# What Spark passes to Java 17 itself (org.apache.spark.launcher.JavaModuleOptions), and Flink needs besides.
OPENS="-XX:+IgnoreUnrecognizedVMOptions -Djdk.reflect.useDirectMethodHandle=false"
for module in lang lang.invoke lang.ref lang.reflect io net nio text time util util.concurrent util.concurrent.atomic \
    util.concurrent.locks; do OPENS="$OPENS --add-opens=java.base/java.$module=ALL-UNNAMED"; done
for module in java.base/jdk.internal.ref java.base/sun.nio.ch java.base/sun.nio.cs java.base/sun.security.action \
    java.base/sun.net.util java.base/sun.util.calendar java.security.jgss/sun.security.krb5; do
    OPENS="$OPENS --add-opens=$module=ALL-UNNAMED"
done

need() {  # need FILE SCRIPT: ends with 1 where a part is missing
    [ -e "$1" ] || { echo "$1 is missing: run $2" >&2; exit 1; }
}

need_command() {  # need_command NAME PACKAGES
    command -v "$1" > /dev/null || { echo "there is no $1: apt-get install $2" >&2; exit 1; }
}

start() {  # start NAME COMMAND...: in the background, output to STATE/NAME.log
    local name=$1
    shift
    mkdir -p "$STATE"
    if [ -e "$STATE/$name.pid" ] && kill -0 "$(cat "$STATE/$name.pid")" 2> /dev/null; then
        echo "$name runs already; stop.sh ends it" >&2
        exit 1
    fi
    setsid "$@" > "$STATE/$name.log" 2>&1 < /dev/null &
    echo $! > "$STATE/$name.pid"
}

await() {  # await NAME PORT: until it listens; ends with 1 when it has died or takes more than a minute
    for _ in $(seq 240); do
        (: > "/dev/tcp/127.0.0.1/$2") 2> /dev/null && return
        kill -0 "$(cat "$STATE/$1.pid")" 2> /dev/null || break
        sleep 0.25
    done
    echo "$1 does not listen on port $2; see $STATE/$1.log" >&2
    exit 1
}

start_pool() {  # Beam's pool of Python workers, which starts them as plain "python" and lets them find this project
    start pool env "PYTHONPATH=$ROOT" "PATH=$(dirname "$PYTHON"):$PATH" \
        "$PYTHON" -m apache_beam.runners.worker.worker_pool_main "--service_port=$POOL_PORT"
    await pool "$POOL_PORT"
}

options() {  # the options for a run on this cluster, one a line
    printf '%s\n' --runner=PortableRunner "--job_endpoint=127.0.0.1:$JOB_PORT" --environment_type=EXTERNAL \
        "--environment_config=127.0.0.1:$POOL_PORT" --environment_cache_millis=60000 "$@" | tee "$STATE/options"
}

stop_all() {  # end what start began, the last first
    local pid_file group
    for pid_file in $(ls -t "$STATE"/*.pid 2> /dev/null); do
        group=$(cat "$pid_file")
        kill -- "-$group" 2> /dev/null || true
        for _ in $(seq 40); do kill -0 -- "-$group" 2> /dev/null || break; sleep 0.1; done
        kill -9 -- "-$group" 2> /dev/null || true
        rm -f "$pid_file"
    done
}
