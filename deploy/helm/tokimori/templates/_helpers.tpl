{{/* The name of all objects. */}}
{{- define "tokimori.name" -}}
{{- default .Release.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* The labels of an object. */}}
{{- define "tokimori.labels" -}}
app.kubernetes.io/name: tokimori
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{/* The labels by which pods of a component are found: (dict "root" . "component" "node"). */}}
{{- define "tokimori.selector" -}}
app.kubernetes.io/name: tokimori
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* The secret with the store and the secret of the nodes. */}}
{{- define "tokimori.secret" -}}
{{- default (include "tokimori.name" .) .Values.existingSecret -}}
{{- end -}}

{{/* The image of the nodes. */}}
{{- define "tokimori.image" -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}

{{/* What all pods have in common. */}}
{{- define "tokimori.pod" -}}
serviceAccountName: {{ include "tokimori.name" . }}
automountServiceAccountToken: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
volumes:
  - name: secrets
    secret:
      secretName: {{ include "tokimori.secret" . }}
      defaultMode: 0440
  - name: state
    emptyDir: {}
  - name: tmp
    emptyDir: {}
{{- end -}}

{{/* What all containers have in common. */}}
{{- define "tokimori.container" -}}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
envFrom:
  - configMapRef:
      name: {{ include "tokimori.name" . }}
volumeMounts:
  - { name: secrets, mountPath: /run/secrets/tokimori, readOnly: true }
  - { name: state, mountPath: /var/lib/tokimori }
  - { name: tmp, mountPath: /tmp }
{{- end -}}
