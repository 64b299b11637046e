{{- /*
Names are constants and not made from the release's name: CRDs, roles, admission
policies and the leader's Lease are one per cluster, and so is an installation.
*/}}

{{- define "draguard.labels" -}}
app.kubernetes.io/name: draguard
app.kubernetes.io/part-of: draguard
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- with .Values.extraLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* What Services, budgets and policies select by; never changes. Takes the component's name. */}}
{{- define "draguard.selector" -}}
app.kubernetes.io/name: draguard
app.kubernetes.io/component: {{ . }}
{{- end }}

{{- /* Takes a list of the root and the target of the Dockerfile: exporter or controller. */}}
{{- define "draguard.image" -}}
{{- $root := index . 0 }}
{{- with index $root.Values.image (index . 1) }}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}
{{- end }}
{{- end }}
{{- end }}

{{- /* metricsOnly outranks the single switches. */}}
{{- define "draguard.remediates" -}}
{{- if and .Values.remediator.enabled (not .Values.metricsOnly) }}true{{ end }}
{{- end }}

{{- define "draguard.reports" -}}
{{- if and .Values.exporter.enabled .Values.exporter.report (not .Values.metricsOnly) }}true{{ end }}
{{- end }}
