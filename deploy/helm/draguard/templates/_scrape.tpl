{{- /*
One scrape endpoint. honorLabels: `pod`, `namespace` and `container` of our pages are
those of who holds the device. What the operator would add under the same names is
dropped, or a GPU that nobody holds would seem to be held by the exporter.
*/}}
{{- define "draguard.endpoint" -}}
port: metrics
path: /metrics
honorLabels: true
interval: {{ .monitoring.interval | quote }}
scrapeTimeout: {{ .monitoring.scrapeTimeout | quote }}
{{- if eq .component "exporter" }}
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
{{- end }}
relabelings:
  - targetLabel: job
    replacement: draguard-{{ .component }}
  {{- if eq .component "exporter" }}
  - sourceLabels: [__meta_kubernetes_pod_node_name]
    targetLabel: node
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
