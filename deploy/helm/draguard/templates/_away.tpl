{{- /*
Where remediator and cleanup Job run: remediator.nodeAffinity, or away from the nodes that the
exporter selects. Root on a GPU node could take the token there, which may evict every pod.
*/}}
{{- define "draguard.remediatorNodes" -}}
{{- $away := .Values.remediator.awayFromGpus }}
{{- if .Values.remediator.nodeAffinity }}
{{- toYaml .Values.remediator.nodeAffinity }}
{{- else if ne $away "no" }}
{{- $terms := list }}
{{- range (include "draguard.outside" . | fromJson).terms }}
{{- $term := dict }}
{{- range . }}
{{- $one := fromJson . }}
{{- $kind := ternary "matchFields" "matchExpressions" (hasPrefix "field " $one.key) }}
{{- $_ := set $one "key" (trimPrefix "field " $one.key) }}
{{- $_ := set $term $kind (append (get $term $kind | default list) $one) }}
{{- end }}
{{- $terms = append $terms $term }}
{{- end }}
{{- if eq $away "required" -}}
requiredDuringSchedulingIgnoredDuringExecution:
  nodeSelectorTerms: {{- toYaml $terms | nindent 4 }}
{{- else -}}
preferredDuringSchedulingIgnoredDuringExecution:
  {{- range $terms }}
  - weight: 100
    preference: {{- toYaml . | nindent 6 }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /*
The nodes that no pool selects: {"terms": [[expression as JSON, ...], ...]}, of which one list must hold
as a whole. A pool selects by an OR of ANDs, so its opposite is an AND of ORs, multiplied out.
Without `pauseLabels`: a node whose driver is being changed has its GPUs all the same.
*/}}
{{- define "draguard.outside" -}}
{{- $terms := list list }}
{{- range $pool := (include "draguard.pools" . | fromJson).pools }}
{{- $outside := list list }}
{{- range $term := $pool.exporter.nodeSelectorTerms }}
{{- $any := list }}
{{- range (include "draguard.requirements" (list $term dict) | fromJson).all }}
{{- $opposite := (include "draguard.opposite" . | fromJson).any }}
{{- if not $opposite }}
{{- fail (printf "remediator.awayFromGpus: %s of exporter.nodeSelectorTerms has no opposite: %s" (toJson .) (include "draguard.nodesInstead" $)) }}
{{- end }}
{{- $any = concat $any $opposite }}
{{- end }}
{{- $outside = (include "draguard.both" (list $outside $any) | fromJson).terms }}
{{- end }}
{{- range $key, $value := $pool.exporter.nodeSelector }}
{{- $outside = append $outside (list (dict "key" $key "operator" "NotIn" "values" (list $value) | toJson)) }}
{{- end }}
{{- $terms = (include "draguard.both" (list $terms $outside) | fromJson).terms }}
{{- end }}
{{- dict "terms" $terms | toJson }}
{{- end }}

{{- define "draguard.nodesInstead" -}}
write the nodes for the remediator into remediator.nodeAffinity and leave awayFromGpus, or set awayFromGpus to "no"
{{- end }}

{{- /* What holds where both of two such lists of lists hold, without terms that another one covers. */}}
{{- define "draguard.both" -}}
{{- $found := list }}
{{- range $one := index . 0 }}
{{- range $other := index $ 1 }}
{{- $found = append $found (concat $one $other | uniq) }}
{{- end }}
{{- end }}
{{- $terms := list }}
{{- range $i, $term := $found }}
{{- $covered := false }}
{{- range $j, $other := $found }}
{{- if or (lt (len $other) (len $term)) (and (eq (len $other) (len $term)) (lt $j $i)) }}
{{- $within := true }}
{{- range $other }}
{{- if not (has . $term) }}{{ $within = false }}{{ break }}{{ end }}
{{- end }}
{{- if $within }}{{ $covered = true }}{{ break }}{{ end }}
{{- end }}
{{- end }}
{{- if not $covered }}{{ $terms = append $terms $term }}{{ end }}
{{- end }}
{{- if gt (len $terms) 32 }}
{{- fail (printf "remediator.awayFromGpus: the nodes that the exporter does not select need more than 32 terms: %s" (include "draguard.nodesInstead" "")) }}
{{- end }}
{{- dict "terms" $terms | toJson }}
{{- end }}

{{- /*
The opposite of one expression, as terms of which one must hold; none where there is none. A label that
is no integer counts as excluded: neither Gt nor Lt matches it, and nothing else describes it.
*/}}
{{- define "draguard.opposite" -}}
{{- $any := list }}
{{- $plain := get (dict "In" "NotIn" "NotIn" "In" "Exists" "DoesNotExist" "DoesNotExist" "Exists") .operator }}
{{- if $plain }}
{{- $any = list (list (set (deepCopy .) "operator" $plain | toJson)) }}
{{- else if regexMatch "^(0|-?[1-9][0-9]{0,17})$" (.values | default (list "") | first) }}
{{- $number := first .values | int64 }}
{{- $limit := eq .operator "Gt" | ternary (add $number 1) (sub $number 1) | toString }}
{{- $other := dict "key" .key "operator" (eq .operator "Gt" | ternary "Lt" "Gt") "values" (list $limit) }}
{{- $any = list (list (toJson $other)) (list (dict "key" .key "operator" "DoesNotExist" | toJson)) }}
{{- end }}
{{- dict "any" $any | toJson }}
{{- end }}
