#!/bin/bash
# Fetch what Flink 1.19 with Beam's job server is made of: 157 MB of jars from Maven.
. "$(dirname "$0")/../engines.sh"
need_command java openjdk-17-jre-headless
need_command mvn maven
fetch_jars flink
