package grafana

// Dashboards are all dashboards. The file of each is its UID.json.
func Dashboards() []Dashboard {
	return []Dashboard{overview(), model(), storage(), calls()}
}

// instances lets the reader choose servers, oneModel a model of theirs.
func instances() variable {
	return query("instance", "Server", `label_values(hindsight_build_info, instance)`, true)
}

func oneModel() variable {
	return query("model", "Model", `label_values(hindsight_observations_total{instance=~"$instance"}, model)`, false)
}

func overview() Dashboard {
	return dashboard("hindsight-overview", "hindsight: overview",
		"Is everything well? The servers, their models as a whole, and the models that are not well.",
		[]variable{instances()},
		row{"Now", 4, []*Panel{
			number("Servers that answer", "short", "Of those that Prometheus knows.", `sum(up{job="hindsight", instance=~"$instance"})`),
			number("Alerts that fire", "short", "See their runbooks.", `count(ALERTS{alertname=~"Hindsight.*", alertstate="firing"}) or vector(0)`,
				first("green"), from("red", 1)),
			number("Models", "short", "Deleted ones are not counted.", `sum(hindsight_models{instance=~"$instance"})`),
			number("Models that learn nothing more", "short", "Read-only: storage failed, or the state is corrupt.",
				`count(hindsight_read_only{instance=~"$instance"} == 1) or vector(0)`, first("green"), from("red", 1)),
			number("Certificates that are broken", "short", "Their states are damaged.",
				`count(hindsight_certificate_ok{instance=~"$instance"} == 0) or vector(0)`, first("green"), from("red", 1)),
			number("Worse than trivial", "short", "Models whose recent skill is below 0.",
				`count(hindsight_recent_skill{instance=~"$instance"} < 0 or hindsight_classifier_recent_skill{instance=~"$instance"} < 0) or vector(0)`,
				first("green"), from("orange", 1)),
		}},
		row{"Work", 8, []*Panel{
			curves("Predictions", "reqps", "", `sum by (instance) (model:hindsight_predictions:rate5m{instance=~"$instance"})`, "{{instance}}"),
			curves("Observations", "reqps", "Learned.", `sum by (instance) (model:hindsight_observations:rate5m{instance=~"$instance"})`, "{{instance}}"),
			curves("Refusals", "reqps", "By reason.", `sum by (reason) (instance_reason:hindsight_refusals:rate5m{instance=~"$instance"}) > 0`, "{{reason}}"),
		}},
		row{"Models", 9, []*Panel{
			table("The least skill", "Over the last thousand observations, of what clients got. Below 0 a model is worse than a trivial predictor.",
				`bottomk(15, hindsight_recent_skill{instance=~"$instance"} or hindsight_classifier_recent_skill{instance=~"$instance"})`, ""),
			table("The most observations", "A second.", `topk(15, model:hindsight_observations:rate5m{instance=~"$instance"})`, ""),
			table("The largest shift of an input", "Above 0.1 an input has moved, above 0.25 by much.",
				`topk(15, hindsight_largest_input_shift{instance=~"$instance"})`, ""),
		}},
		row{"Labels", 8, []*Panel{
			curves("Predictions that wait for their labels", "short", "", `hindsight_pending_labels_all{instance=~"$instance"}`, "{{instance}}"),
			curves("Labels that did not come in time", "reqps", "", `sum by (instance) (rate(hindsight_expired_labels_total{instance=~"$instance"}[$__rate_interval]))`, "{{instance}}"),
			curves("Retries that were answered", "reqps", "A retry is not learned again.",
				`sum by (instance) (rate(hindsight_duplicates_total{instance=~"$instance"}[$__rate_interval]))`, "{{instance}}"),
		}},
		row{"Memory", 8, []*Panel{
			curves("States of models", "bytes", "Idle models leave the memory at the limit.",
				`hindsight_models_memory_bytes{instance=~"$instance"}`, "{{instance}}"),
			curves("The process", "bytes", "", `process_resident_memory_bytes{job="hindsight", instance=~"$instance"}`, "{{instance}}"),
			curves("Processors", "short", "", `rate(process_cpu_seconds_total{job="hindsight", instance=~"$instance"}[$__rate_interval])`, "{{instance}}"),
			curves("Models that are loaded on use", "ops", "", `rate(hindsight_model_wakes_total{instance=~"$instance"}[$__rate_interval])`, "{{instance}}"),
		}},
	)
}

func model() Dashboard {
	const of = `{instance=~"$instance", model="$model"}`
	return dashboard("hindsight-model", "hindsight: a model",
		"How well one model does: its loss beside two predictors that ignore the inputs, its regret beside the guarantee, its intervals, its inputs and its labels.",
		[]variable{instances(), oneModel()},
		row{"Now", 4, []*Panel{
			number("Recent skill", "none", "1 − loss / the smaller loss of the running mean and the last label, over the last thousand observations.",
				`hindsight_recent_skill`+of+` or hindsight_classifier_recent_skill`+of, first("red"), from("orange", -0.01), from("green", 0.01)),
			number("Regret", "none", "The loss minus that of the best fixed function, or of the best expert, with all labels known.", `hindsight_regret`+of),
			number("Guarantee", "none", "The largest regret that the theory allows.", `hindsight_regret_bound`+of),
			number("Observations", "short", "", `hindsight_observations_total`+of),
			number("Labels that wait", "short", "", `hindsight_pending_labels`+of),
			number("Learns", "none", "0: read-only.", `1 - hindsight_read_only`+of, first("red"), from("green", 1)),
		}},
		row{"Loss", 9, []*Panel{
			curves("Mean loss over an hour, as served", "none", "Beside it two predictors that ignore the inputs, over the same observations.",
				`increase(hindsight_loss_total{instance=~"$instance", model="$model", kind="served"}[1h]) / on (instance, model) (increase(hindsight_served_observations_total`+of+`[1h]) > 0)`, "model",
				`increase(hindsight_baseline_loss_total{instance=~"$instance", model="$model", kind="served"}[1h]) / on (instance, model) group_left () (increase(hindsight_served_observations_total`+of+`[1h]) > 0)`, "{{baseline}}"),
			curves("Skill", "none", "1 is perfect, 0 as good as a trivial predictor.",
				`hindsight_recent_skill`+of, "last 1000",
				`model:hindsight_served_skill:1d`+of, "last day",
				`hindsight_skill{instance=~"$instance", model="$model", kind="prequential"}`, "from the start, prequential"),
			curves("Regret", "none", "", `hindsight_regret`+of, "regret", `hindsight_served_regret`+of, "of what was served", `hindsight_regret_bound`+of, "guarantee"),
		}},
		row{"A classifier", 8, []*Panel{
			share(curves("Share of errors over an hour", "percentunit", "",
				`increase(hindsight_classifier_errors_total{instance=~"$instance", model="$model", kind="served"}[1h]) / on (instance, model) (increase(hindsight_served_observations_total`+of+`[1h]) > 0)`, "model",
				`increase(hindsight_classifier_baseline_errors_total{instance=~"$instance", model="$model", kind="served"}[1h]) / on (instance, model) group_left () (increase(hindsight_served_observations_total`+of+`[1h]) > 0)`, "{{baseline}}")),
			curves("Skill", "none", "1 is perfect, 0 as good as a trivial predictor.", `hindsight_classifier_recent_skill`+of, "last 1000"),
		}},
		row{"Intervals and drift", 8, []*Panel{
			share(curves("Labels inside their intervals", "percentunit", "Of the last thousand intervals, beside what is to be.",
				`hindsight_interval_recent_coverage`+of, "{{coverage}} is", `hindsight_interval_nominal_coverage`+of, "{{coverage}} is to be")),
			curves("Changes of the loss in an hour", "short", "", `increase(hindsight_drift_detected_total`+of+`[1h])`, "{{direction}}",
				`increase(hindsight_learner_starts_total`+of+`[1h])`, "new start"),
			share(curves("Labels set aside", "percentunit", "By the label gate, of the observations of six hours. Above 0.01 look where the labels come from.",
				`model:hindsight_labels_set_aside:ratio6h`+of, "set aside")),
		}},
		row{"Inputs", 8, []*Panel{
			curves("Largest shift of an input", "none", "Population stability index: above 0.1 an input has moved, above 0.25 by much.", `hindsight_largest_input_shift`+of, "largest"),
		}},
		row{"Work", 8, []*Panel{
			curves("Calls", "reqps", "", `model:hindsight_predictions:rate5m`+of, "predictions", `model:hindsight_observations:rate5m`+of, "observations",
				`rate(hindsight_expired_labels_total`+of+`[5m])`, "labels too late"),
			curves("Predict", "s", "", `histogram_quantile(0.5, sum by (le) (rate(hindsight_predict_seconds_bucket`+of+`[$__rate_interval])))`, "p50",
				`histogram_quantile(0.99, sum by (le) (rate(hindsight_predict_seconds_bucket`+of+`[$__rate_interval])))`, "p99"),
			curves("Observe", "s", "", `histogram_quantile(0.5, sum by (le) (rate(hindsight_observe_seconds_bucket`+of+`[$__rate_interval])))`, "p50",
				`histogram_quantile(0.99, sum by (le) (rate(hindsight_observe_seconds_bucket`+of+`[$__rate_interval])))`, "p99"),
			curves("State", "bytes", "", `hindsight_state_bytes`+of, "memory"),
		}},
	)
}

func storage() Dashboard {
	const of = `{instance=~"$instance"}`
	return dashboard("hindsight-storage", "hindsight: storage",
		"The log, the snapshots and the disk.",
		[]variable{instances()},
		row{"Disk", 8, []*Panel{
			curves("Space left", "bytes", "Of the file system of the data directory.", `hindsight_store_filesystem_available_bytes`+of, "{{instance}}"),
			curves("Space taken", "bytes", "By the data directory.", `hindsight_store_disk_bytes`+of, "{{instance}}"),
			curves("Fsync", "s", "One serves all observations that waited for it.",
				`histogram_quantile(0.5, sum by (instance, le) (rate(hindsight_store_fsync_seconds_bucket`+of+`[$__rate_interval])))`, "p50 {{instance}}",
				`histogram_quantile(0.99, sum by (instance, le) (rate(hindsight_store_fsync_seconds_bucket`+of+`[$__rate_interval])))`, "p99 {{instance}}"),
		}},
		row{"The way of an observation", 8, []*Panel{
			curves("Waits for its turn", "s", "", `histogram_quantile(0.99, sum by (instance, le) (rate(hindsight_queue_seconds_bucket`+of+`[$__rate_interval])))`, "p99 {{instance}}"),
			curves("Commit", "s", "The append to the log, with its fsync.", `histogram_quantile(0.99, sum by (instance, le) (rate(hindsight_commit_seconds_bucket`+of+`[$__rate_interval])))`, "p99 {{instance}}"),
			curves("Learning", "s", "Of the observations of a commit.", `histogram_quantile(0.99, sum by (instance, le) (rate(hindsight_learn_seconds_bucket`+of+`[$__rate_interval])))`, "p99 {{instance}}"),
			curves("Observations of a commit", "short", "", `sum by (instance) (rate(hindsight_observations_total`+of+`[$__rate_interval])) / rate(hindsight_commit_seconds_count`+of+`[$__rate_interval])`, "{{instance}}"),
		}},
		row{"Snapshots", 8, []*Panel{
			curves("The oldest snapshot", "s", "Of models that have learned since.", `max by (instance) (time() - hindsight_snapshot_timestamp_seconds`+of+` and hindsight_unsnapshotted_observations`+of+` > 0)`, "{{instance}}"),
			curves("To learn again after a kill", "short", "Observations after the newest snapshots.", `sum by (instance) (hindsight_unsnapshotted_observations`+of+`)`, "{{instance}}"),
			curves("Snapshots that failed", "ops", "", `rate(hindsight_snapshot_failures_total`+of+`[$__rate_interval])`, "{{instance}}"),
			curves("The newest backup", "s", "In the place of --backup-to.", `time() - hindsight_backup_last_success_timestamp_seconds`+of, "{{instance}}"),
		}},
		row{"Tables", 8, []*Panel{
			share(curves("Writes that wait", "percentunit", "Share of the time.", `rate(hindsight_store_stall_seconds_total`+of+`[$__rate_interval])`, "{{instance}}")),
			curves("Remembered observation ids", "short", "", `hindsight_store_remembered_ids`+of, "{{instance}}"),
			curves("Models that the start could not load", "short", "", `hindsight_recovery_models_failed`+of, "{{instance}}"),
		}},
	)
}

func calls() Dashboard {
	const of = `{instance=~"$instance"}`
	return dashboard("hindsight-rpc", "hindsight: calls",
		"Every call by its method, JSON over HTTP among them, with what is refused and why.",
		[]variable{instances()},
		row{"Calls", 9, []*Panel{
			curves("Calls by method", "reqps", "", `sum by (grpc_method) (instance_method:grpc_server_handled:rate5m`+of+`)`, "{{grpc_method}}"),
			curves("Calls that failed, by code", "reqps", "", `sum by (grpc_code) (instance_method:grpc_server_handled:rate5m{instance=~"$instance", grpc_code!="OK"}) > 0`, "{{grpc_code}}"),
			curves("The slowest in a hundred, by method", "s", "Of calls with one answer.", `max by (grpc_method) (instance_method:grpc_server_handling_seconds:p99_5m`+of+`)`, "{{grpc_method}}"),
		}},
		row{"Refusals", 8, []*Panel{
			curves("By reason", "reqps", "The client library's documentation says what to do on each.", `sum by (reason) (instance_reason:hindsight_refusals:rate5m`+of+`) > 0`, "{{reason}}"),
			curves("Requests in progress", "bytes", "", `hindsight_requests_in_progress_bytes`+of, "{{instance}}"),
		}},
		row{"Access", 8, []*Panel{
			curves("Calls without a good token", "reqps", "", `rate(hindsight_auth_unauthenticated_total`+of+`[$__rate_interval])`, "{{instance}}"),
			number("The certificate expires in", "s", "", `min(hindsight_tls_certificate_expiry_timestamp_seconds`+of+` - time())`, first("red"), from("orange", 3*86400), from("green", 14*86400)),
		}},
	)
}
