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
