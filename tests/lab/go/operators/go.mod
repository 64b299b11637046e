module draguard.dev/tests/lab/operators

go 1.26.0

require (
	github.com/argoproj/argo-cd/v3 v3.3.0
	github.com/fluxcd/source-controller v1.8.0
	github.com/grafana/grafana-operator/v5 v5.18.0
	github.com/prometheus-operator/prometheus-operator v0.85.0
)
