{{- /*
The exporters of this release as JSON, {"pools": [{name, fullName, exporter}]}: one for each of
exporter.pools, or the one that exporter.* describes. `exporter` has the values of that DaemonSet:
exporter.*, overridden by the pool. Not mergeOverwrite: an empty value of a pool counts as well.
*/}}
{{- define "draguard.pools" -}}
{{- $found := list }}
{{- range $pool := .Values.exporter.pools | default (list dict) }}
{{- $exporter := omit (deepCopy $.Values.exporter) "pools" }}
{{- range $key, $value := omit $pool "name" "resources" }}
{{- if kindIs "map" $value }}
{{- range $below, $given := $value }}
{{- $_ := set (index $exporter $key) $below $given }}
{{- end }}
{{- else }}
{{- $_ := set $exporter $key $value }}
{{- end }}
{{- end }}
{{- range $container, $resources := $pool.resources }}
{{- $_ := set (index $exporter $container) "resources" $resources }}
{{- end }}
{{- $name := $pool.name | default "" }}
{{- $found = append $found (dict "name" $name "fullName" (printf "draguard-exporter-%s" $name | trimSuffix "-") "exporter" $exporter) }}
{{- end }}
{{- dict "pools" $found | toJson }}
{{- end }}

{{- /* What one term and the nodeSelector of a pool require of a node: a JSON list. */}}
{{- define "draguard.requirements" -}}
{{- $all := index . 1 }}
{{- $found := (index . 0).matchExpressions | default list }}
{{- range (index . 0).matchFields }}
{{- $found = append $found (set (deepCopy .) "key" (printf "field %s" .key)) }}
{{- end }}
{{- range $key, $value := $all }}
{{- $found = append $found (dict "key" $key "operator" "In" "values" (list $value)) }}
{{- end }}
{{- dict "all" $found | toJson }}
{{- end }}

{{- /* true where no node can meet both lists of requirements, as far as their text shows. */}}
{{- define "draguard.apart" -}}
{{- $apart := "" }}
{{- range $pair := list (list (index . 0) (index . 1)) (list (index . 1) (index . 0)) }}
{{- range $one := index $pair 0 }}
{{- range $other := index $pair 1 }}
{{- if eq $one.key $other.key }}
{{- if and (eq $other.operator "DoesNotExist") (has $one.operator (list "In" "Exists" "Gt" "Lt")) }}
{{- $apart = "true" }}
{{- else if and (eq $one.operator "In") (has $other.operator (list "In" "NotIn")) }}
{{- $common := list }}
{{- range $one.values }}
{{- if eq (has . $other.values) (eq $other.operator "In") }}
{{- $common = append $common . }}
{{- end }}
{{- end }}
{{- if not $common }}
{{- $apart = "true" }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- $apart }}
{{- end }}
