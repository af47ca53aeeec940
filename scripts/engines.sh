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
LOG_LINES=40

# What Spark passes to Java 17 itself (org.apache.spark.launcher.JavaModuleOptions), and Flink needs besides.
OPENS="-XX:+IgnoreUnrecognizedVMOptions -Djdk.reflect.useDirectMethodHandle=false"
for module in lang lang.invoke lang.ref lang.reflect io net nio text time util util.concurrent util.concurrent.atomic \
    util.concurrent.locks; do OPENS="$OPENS --add-opens=java.base/java.$module=ALL-UNNAMED"; done
for module in java.base/jdk.internal.ref java.base/sun.nio.ch java.base/sun.nio.cs java.base/sun.security.action \
    java.base/sun.net.util java.base/sun.util.calendar java.security.jgss/sun.security.krb5; do
    OPENS="$OPENS --add-opens=$module=ALL-UNNAMED"
done

fail() {  # fail MESSAGE: says it, and ends with 1
    echo "$1" >&2
    exit 1
}

fail_with_log() {  # fail_with_log MESSAGE NAME: the same, with the end of STATE/NAME.log
    echo "the end of $STATE/$2.log:" >&2
    tail -n "$LOG_LINES" "$STATE/$2.log" >&2
    fail "$1: see the end of its log above"
}

need() {  # need FILE SCRIPT: ends with 1 where a part is missing
    [ -e "$1" ] || fail "$1 is missing: run $2"
}

need_command() {  # need_command NAME PACKAGES
    command -v "$1" > /dev/null || fail "there is no $1: apt-get install $2"
}

fetch_jars() {  # fetch_jars ENGINE: the jars of its pom.xml to PARTS/ENGINE/jars, anew where that file has changed
    local parts=$PARTS/$1 pom=$ROOT/scripts/$1/pom.xml
    cmp -s "$pom" "$parts/jars.pom" && return
    rm -rf "$parts/jars"
    mkdir -p "$parts"
    mvn -q -B -f "$pom" dependency:copy-dependencies "-DoutputDirectory=$parts/jars"
    cp "$pom" "$parts/jars.pom"
}

need_jars() {  # need_jars ENGINE: ends with 1 where they are not those of its pom.xml
    cmp -s "$ROOT/scripts/$1/pom.xml" "$PARTS/$1/jars.pom" ||
        fail "the jars of scripts/$1/pom.xml are missing: run scripts/$1/setup.sh"
}

listens() {  # listens PORT [HOST]
    (: > "/dev/tcp/${2:-127.0.0.1}/$1") 2> /dev/null
}

need_free() {  # need_free PORT...: ends with 1 where somebody listens on one, whom a run would take for this cluster
    local port
    for port; do
        ! listens "$port" || fail "port $port is taken: stop.sh ends what start.sh began; ENGINE_PORT moves all ports"
    done
}

began=()  # the names of the processes that this script has started

start() {  # start NAME COMMAND...: in the background, output to STATE/NAME.log; they end where the script fails
    local name=$1
    shift
    mkdir -p "$STATE"
    ! { [ -e "$STATE/$name.pid" ] && is_alive "$name"; } || fail "$name runs already; stop.sh ends it"
    setsid "$@" > "$STATE/$name.log" 2>&1 < /dev/null &
    echo $! > "$STATE/$name.pid"
    began+=("$name")
    trap '[ $? = 0 ] || stop "${began[@]}"' EXIT
}

is_alive() {  # is_alive NAME
    kill -0 "$(cat "$STATE/$1.pid")" 2> /dev/null
}

await() {  # await NAME PORT [HOST]: until it listens; ends with 1 when it has died or takes more than a minute
    for _ in $(seq 240); do
        is_alive "$1" || fail_with_log "$1 has ended" "$1"
        ! listens "$2" "${3:-}" || return 0
        sleep 0.25
    done
    fail_with_log "$1 does not listen on port $2 after a minute" "$1"
}

start_pool() {  # Beam's pool of Python workers, started as plain "python"; they find this project, and what PYTHONPATH names
    start pool env "PYTHONPATH=$ROOT${PYTHONPATH:+:$PYTHONPATH}" "PATH=$(dirname "$PYTHON"):$PATH" \
        "$PYTHON" -m apache_beam.runners.worker.worker_pool_main "--service_port=$POOL_PORT"
    await pool "$POOL_PORT"
}

options() {  # the options for a run on this cluster, one a line, where all that was started is still there
    local name
    for name in "${began[@]}"; do is_alive "$name" || fail_with_log "$name has ended" "$name"; done
    printf '%s\n' --runner=PortableRunner "--job_endpoint=127.0.0.1:$JOB_PORT" --environment_type=EXTERNAL \
        "--environment_config=127.0.0.1:$POOL_PORT" --environment_cache_millis=60000 "$@" | tee "$STATE/options"
}

stop() {  # stop NAME...: end what start began, the last first
    local place group
    for ((place = $#; place > 0; place--)); do
        group=$(cat "$STATE/${!place}.pid")
        kill -- "-$group" 2> /dev/null || true
        for _ in $(seq 40); do kill -0 -- "-$group" 2> /dev/null || break; sleep 0.1; done
        kill -9 -- "-$group" 2> /dev/null || true
        rm -f "$STATE/${!place}.pid"
    done
}

stop_all() {  # end all that runs of this cluster
    local names=() file
    for file in $(ls -tr "$STATE"/*.pid 2> /dev/null); do names+=("$(basename "$file" .pid)"); done
    stop "${names[@]}"
}
