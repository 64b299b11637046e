{{- /*
A service account's token, for one container alone: the pod mounts none by itself.
A projected token names pod and node, which the admission policies rely on.
*/}}
{{- define "draguard.tokenVolume" -}}
- name: token
  projected:
    defaultMode: 0444
    sources:
      - serviceAccountToken:
          path: token
          expirationSeconds: 3600
      - configMap:
          name: kube-root-ca.crt
          items:
            - key: ca.crt
              path: ca.crt
{{- end }}

{{- define "draguard.tokenMount" -}}
- name: token
  mountPath: /var/run/secrets/kubernetes.io/serviceaccount
  readOnly: true
{{- end }}

{{- /*
For every container that needs nothing of the node. The user is one that no other image has: with
hostPID the agent sees the node's processes, and Linux lets it look into those of its own user
(environment, files, tokens). 65532, which many images share, would be many.
*/}}
{{- define "draguard.restricted" -}}
runAsNonRoot: true
runAsUser: 65522
runAsGroup: 65522
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- /* How each container begins; takes what draguard.image takes. */}}
{{- define "draguard.container" -}}
image: {{ include "draguard.image" . | quote }}
imagePullPolicy: {{ (index . 0).Values.image.pullPolicy }}
{{- /* An image of another architecture says so on stderr only; the doctor reads the pod's status. */}}
terminationMessagePolicy: FallbackToLogsOnError
{{- end }}

{{- /*
Readiness and liveness, and their port, by the values of `web`. With a web configuration they have a
port of their own, in plain text: the kubelet has no client certificate. Takes a list of `web` and
the seconds between two looks at readiness.
*/}}
{{- define "draguard.probes" -}}
{{- $port := ternary "health" "metrics" (ne (first .).configSecret "") -}}
readinessProbe:
  httpGet: {path: /readyz, port: {{ $port }}, scheme: HTTP}
  periodSeconds: {{ last . }}
  timeoutSeconds: 5
livenessProbe:
  httpGet: {path: /healthz, port: {{ $port }}, scheme: HTTP}
  initialDelaySeconds: 30
  periodSeconds: 20
  timeoutSeconds: 10
  failureThreshold: 6
{{- end }}

{{- define "draguard.healthPort" -}}
{{- if .configSecret }}
- name: health
  containerPort: 9402
{{- end }}
{{- end }}

{{- define "draguard.webMount" -}}
{{- if .configSecret }}
- name: web
  mountPath: /etc/draguard/web
  readOnly: true
{{- end }}
{{- end }}

{{- define "draguard.webVolume" -}}
{{- with .configSecret }}
- name: web
  secret:
    secretName: {{ . | quote }}
    defaultMode: 0440
{{- end }}
{{- end }}

{{- define "draguard.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end }}

{{- /* Annotations of what exists only while the release is deleted; takes the weight. */}}
{{- define "draguard.cleanupHook" -}}
helm.sh/hook: pre-delete,post-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{- /* The same of the Job of one moment; takes pre-delete or post-delete. */}}
{{- define "draguard.cleanupJob" -}}
helm.sh/hook: {{ . }}
helm.sh/hook-weight: "0"
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
