{{- /*
One scrape endpoint. honorLabels: `pod`, `namespace` and `container` of our pages are
those of who holds the device. What the operator would add under the same names is
dropped, or a free GPU would seem to be held by the exporter.
*/}}
{{- define "draguard.endpoint" -}}
port: metrics
path: /metrics
honorLabels: true
interval: {{ .monitoring.interval | quote }}
scrapeTimeout: {{ .monitoring.scrapeTimeout | quote }}
{{- with .web }}
{{- if eq .scheme "HTTPS" }}
scheme: https
{{- with .scrape.tlsConfig }}
tlsConfig: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with .scrape.basicAuth }}
basicAuth: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
relabelings: {{- /* with the default action written out, or GitOps tools would see it added */}}
  - action: replace
    targetLabel: job
    replacement: draguard-{{ .component }}
  {{- if eq .component "exporter" }}
  - action: replace
    sourceLabels: [__meta_kubernetes_pod_node_name]
    targetLabel: node
  {{- end }}
  {{- with .clusterName }}
  - action: replace
    targetLabel: cluster
    replacement: {{ . | quote }}
  {{- end }}
  - action: labeldrop
    regex: pod|namespace|container|service|endpoint
  {{- with .monitoring.relabelings }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .monitoring.metricRelabelings }}
metricRelabelings: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* A duration of Prometheus, such as 1m30s, as a number. */}}
{{- define "draguard.milliseconds" -}}
{{- $total := 0 }}
{{- range regexFindAll "[0-9]+(ms|s|m|h)" . -1 }}
{{- $unit := regexFind "[a-z]+" . }}
{{- $total = add $total (mul (trimSuffix $unit . | int64) (index (dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000) $unit)) }}
{{- end }}
{{- $total }}
{{- end }}
