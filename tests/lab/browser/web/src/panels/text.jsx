// The text panel: Markdown or HTML, cleaned by Grafana's own sanitizer.
import { renderTextPanelMarkdown, textUtil } from "@grafana/data";

import { Drawn } from "./drawn.jsx";

export function Text({ options, replaceVariables }) {
  const text = replaceVariables(options.content ?? "", {}, options.mode === "html" ? "html" : undefined);
  const html = options.mode === "html" ? textUtil.sanitizeTextPanelContent(text) : renderTextPanelMarkdown(text);
  return (
    <Drawn count={text.trim() ? 1 : 0}>
      <div className="markdown-html" dangerouslySetInnerHTML={{ __html: html }} />
    </Drawn>
  );
}
