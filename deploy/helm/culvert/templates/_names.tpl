{{- define "culvert.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "culvert.selector" -}}
app.kubernetes.io/name: culvert
app.kubernetes.io/instance: {{ .root.Release.Name | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "culvert.labels" -}}
{{ include "culvert.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "culvert.image" -}}
image: {{ printf "%s/culvert-%s:%s" .root.Values.imageRegistry .part (default .root.Chart.AppVersion .root.Values.imageTag) | quote }}
imagePullPolicy: {{ .root.Values.imagePullPolicy }}
{{- end -}}

{{- define "culvert.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "culvert.claim" -}}
{{- default (printf "%s-state" (include "culvert.name" .)) .Values.controller.state.claim -}}
{{- end -}}

{{- /* The controller's user, who owns the state volume. */ -}}
{{- define "culvert.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "culvert.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}
