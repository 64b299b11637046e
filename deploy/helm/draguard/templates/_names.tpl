{{- /*
Names are constants and not made from the release's name: CRDs, roles, admission
policies and the leader's Lease are one per cluster, and so is an installation.
*/}}

{{- /* Dicts as one, as YAML; the last wins. Not merge: there an empty value does not count. */}}
{{- define "draguard.merged" -}}
{{- $found := dict }}
{{- range . }}
{{- range $key, $value := . }}
{{- $_ := set $found $key $value }}
{{- end }}
{{- end }}
{{- with $found }}{{ toYaml . }}{{ end }}
{{- end }}

{{- /* The labels of an object. Takes a list of the root and, where there are some, dicts of the object's own: those win. */}}
{{- define "draguard.labels" -}}
{{- with first . }}
{{- $base := dict "app.kubernetes.io/name" "draguard" "app.kubernetes.io/part-of" "draguard" "app.kubernetes.io/version" .Chart.AppVersion }}
{{- concat (list $base .Values.extraLabels) (rest $) | include "draguard.merged" }}
{{- end }}
{{- end }}

{{- /*
The annotations of an object, with their key and the line break before it; nothing where there are
none. Takes a list of the root and, where there are some, the object's own as YAML: those win.
*/}}
{{- define "draguard.annotations" -}}
{{- $given := list (first .).Values.commonAnnotations }}
{{- range rest . }}
{{- $given = append $given (fromYaml .) }}
{{- end }}
{{- with include "draguard.merged" $given }}
  annotations: {{- . | nindent 4 }}
{{- end }}
{{- end }}

{{- /* What Services, budgets and policies select by; never changes. Takes the component's name. */}}
{{- define "draguard.selector" -}}
app.kubernetes.io/name: draguard
app.kubernetes.io/component: {{ . }}
{{- end }}

{{- /* The registry of both images; that of a parent chart comes first. */}}
{{- define "draguard.registry" -}}
{{- (.Values.global | default dict).imageRegistry | default .Values.image.registry | trimSuffix "/" }}
{{- end }}

{{- /* true where a repository begins with a registry's host, as container runtimes read it. */}}
{{- define "draguard.hasHost" -}}
{{- if regexMatch "^([^/]*[.:][^/]*|localhost)/" . }}true{{ end }}
{{- end }}

{{- /* Takes a list of the root and the target of the Dockerfile: exporter or controller. */}}
{{- define "draguard.repository" -}}
{{- $registry := include "draguard.registry" (index . 0) }}
{{- with index (index . 0).Values.image (index . 1) }}
{{- if $registry }}{{ $registry }}/{{ end }}{{ .repository }}
{{- end }}
{{- end }}

{{- /* Takes what draguard.repository takes. */}}
{{- define "draguard.image" -}}
{{- $root := index . 0 }}
{{- with index $root.Values.image (index . 1) }}
{{- include "draguard.repository" $ }}
{{- if .digest -}}
@{{ .digest }}
{{- else -}}
:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The images that this release uses, by the targets of the Dockerfile, with spaces. */}}
{{- define "draguard.targets" -}}
{{- if .Values.exporter.enabled }}exporter {{ end }}
{{- if or (include "draguard.remediates" .) (include "draguard.explains" .) }}controller{{ end }}
{{- end }}

{{- /* metricsOnly outranks the single switches. */}}
{{- define "draguard.remediates" -}}
{{- if and .Values.remediator.enabled (not .Values.metricsOnly) }}true{{ end }}
{{- end }}

{{- define "draguard.explains" -}}
{{- if and .Values.explainer.enabled (not .Values.metricsOnly) }}true{{ end }}
{{- end }}

{{- define "draguard.reports" -}}
{{- if and .Values.exporter.enabled .Values.exporter.report (not .Values.metricsOnly) }}true{{ end }}
{{- end }}

{{- /* Where a component serves its metrics; takes its name. */}}
{{- define "draguard.port" -}}
{{- get (dict "exporter" 9400 "remediator" 9401 "explainer" 9403) . }}
{{- end }}

{{- /* The components that this release has and that serve, with spaces. */}}
{{- define "draguard.components" -}}
{{- if .Values.exporter.enabled }}exporter {{ end }}
{{- if include "draguard.remediates" . }}remediator {{ end }}
{{- if include "draguard.explains" . }}explainer{{ end }}
{{- end }}
