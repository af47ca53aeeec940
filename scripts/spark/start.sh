#!/bin/bash
# Start a Spark cluster on this machine (a master, two workers of one core), Beam's job server, and Python workers.
#   SPARK_CONF   properties for the driver, such as "spark.speculation=true spark.task.maxFailures=8"
# Prints the options with which a run uses it:  beam run NAME ... -- $(scripts/spark/start.sh)
. "$(dirname "$0")/../engines.sh"
need_jars spark
need "$PARTS/spark/python.done" scripts/spark/setup.sh
need_command java openjdk-17-jre-headless
need_free "$POOL_PORT" "$JOB_PORT" "$MASTER_PORT"
export SPARK_HOME=$PARTS/spark/python/pyspark SPARK_LOCAL_IP=127.0.0.1 SPARK_LOCAL_DIRS=$STATE/scratch
# Executors find Beam behind Spark's own jars, which must win (jackson, slf4j); nothing is staged for each job. Only
# Beam's guava comes first: with Spark's, version 14, its access to Google's stores does not load (Preconditions).
export SPARK_DIST_CLASSPATH="$PARTS/spark/jars/*"
guava=$(ls "$PARTS"/spark/jars/guava-*.jar)
runner=$(ls "$PARTS"/spark/jars/beam-runners-spark-3-*.jar)
mkdir -p "$STATE/scratch"
spark() { start "$1" "$SPARK_HOME/bin/spark-class" "org.apache.spark.deploy.${@:2}"; }
spark master master.Master --host 127.0.0.1 --port "$MASTER_PORT" --webui-port "$((PORT + 3))"
await master "$MASTER_PORT"
for worker in 1 2; do  # each on a host of its own: Spark starts no second copy of a task on the host of the first
    spark "worker$worker" worker.Worker --host "127.0.0.$worker" --port "$((PORT + 3 + 2 * worker))" \
        --webui-port "$((PORT + 4 + 2 * worker))" --cores 1 --memory 1200m --work-dir "$STATE/work/$worker" \
        "spark://127.0.0.1:$MASTER_PORT"
done
start_pool
properties=()
for property in ${SPARK_CONF:-}; do properties+=("-D$property"); done
start job-server java -Xmx2g $OPENS "${properties[@]}" "-Djava.io.tmpdir=$STATE/scratch" -Dspark.ui.enabled=false \
    "-Dspark.executor.extraClassPath=$guava" -Dspark.driver.host=127.0.0.1 -Dspark.driver.bindAddress=127.0.0.1 \
    "-Dlog4j2.configurationFile=$ROOT/scripts/spark/log4j2.properties" \
    -cp "$guava:$SPARK_HOME/jars/*:$PARTS/spark/jars/*" org.apache.beam.runners.spark.SparkJobServerDriver \
    --job-host=127.0.0.1 "--job-port=$JOB_PORT" --artifact-port=0 --expansion-port=0 \
    "--artifacts-dir=$STATE/staged" "--spark-master-url=spark://127.0.0.1:$MASTER_PORT"
await job-server "$JOB_PORT"
for worker in 1 2; do await "worker$worker" "$((PORT + 3 + 2 * worker))" "127.0.0.$worker"; done
options "--files_to_stage=$runner"
