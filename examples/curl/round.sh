#!/usr/bin/env bash
# A round by curl: create a model, predict, observe, ask how it is doing.
#
#     examples/curl/round.sh [http://localhost:9464]
#
# curl sends a call again when the server does not answer, or answers that it is busy
# (429, 503). The ids are chosen here, so nothing is learned twice.
set -euo pipefail
server=${1:-http://localhost:9464}/v1
call() {
	curl --silent --show-error --fail-with-body --max-time 10 --retry 5 --retry-connrefused --write-out '\n' "$@"
}

echo '--- create'
call --json '{"id": "sales", "spec": {"inputs": [
  {"name": "temperature", "numeric": {}}, {"name": "city", "categorical": {}}]}}' "$server/models"

for n in 1 2 3; do
	id=sales-$(cat /proc/sys/kernel/random/uuid)
	echo "--- predict $n"
	call --json '{"inputs": {"temperature": 2'$n', "city": "Oslo"}, "prediction_id": "'"$id"'"}' "$server/models/sales:predict"
	echo "--- observe $n"
	call --json '{"prediction_id": "'"$id"'", "label": 10'$n'}' "$server/models/sales:observe"
done

echo '--- the same again: it is not learned twice'
call --json '{"prediction_id": "'"$id"'", "label": 10'$n'}' "$server/models/sales:observe"

echo '--- what is wrong is rejected, with a reason for programs'
call --json '{"inputs": {"temperature": 21, "town": "Oslo"}}' "$server/models/sales:predict" || true

echo '--- statistics'
call "$server/models/sales/stats"
