// Renders /openapi.json. Everything is set as text, never as HTML.
"use strict";

function element(name, text, ...children) {
  const made = document.createElement(name);
  // Backticks become <code>.
  (text || "").split("`").forEach((piece, n) => {
    if (n % 2 === 0) return made.append(piece);
    const code = document.createElement("code");
    code.append(piece);
    made.append(code);
  });
  made.append(...children);
  return made;
}

function table(head, rows) {
  if (!rows.length) return "";
  const line = (cell, cells) => element("tr", "", ...cells.map((text) => element(cell, text)));
  return element("table", "", line("th", head), ...rows.map((cells) => line("td", cells)));
}

function type(schema) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  const choices = schema.oneOf || schema.anyOf || schema.allOf;
  if (choices) return choices.map(type).join(" or ");
  const names = [].concat(schema.type || "any");
  const name = names.map((n) => (n === "array" ? "array of " + type(schema.items) : n)).join(" or ");
  const bounds = ["format", "pattern", "minimum", "maximum", "minLength", "maxLength"].filter((key) => key in schema);
  const words = (schema.enum || []).map((word) => "`" + word + "`").join(", ");
  return [name, ...bounds.map((key) => `${key} \`${schema[key]}\``), words].filter(Boolean).join("; ");
}

function operation(method, path, described) {
  const parameters = (described.parameters || []).map((p) => [
    "`" + p.name + "`" + (p.required ? "" : " (optional)"), p.in, type(p.schema), p.description || ""]);
  const body = described.requestBody;
  const answers = Object.entries(described.responses).map(([status, answer]) => {
    const content = Object.entries(answer.content || {}).map(([kind, { schema }]) => `${kind}: ${type(schema)}`);
    const headers = Object.keys(answer.headers || {}).map((name) => "`" + name + "`").join(", ");
    return [status, answer.description, content.join("; "), headers];
  });
  const title = element("h3", "`" + method.toUpperCase() + " " + path + "` ", element("small", described.summary));
  const article = element("article", "", title, element("p", described.description),
    table(["Parameter", "In", "Type", ""], parameters));
  if (body) article.append(element("p", "Body: " + type(Object.values(body.content)[0].schema) + ". " + (body.description || "")));
  article.append(table(["Status", "", "Content", "Headers"], answers));
  return article;
}

function schema(name, described) {
  const required = new Set(described.required || []);
  const members = Object.entries(described.properties || {}).map(([member, of]) => [
    "`" + member + "`" + (required.has(member) ? "" : " (optional)"), type(of), of.description || ""]);
  const article = element("article", "", element("h3", "`" + name + "`"), element("p", described.description));
  article.id = "schema-" + name;
  article.append(members.length ? table(["Member", "Type", ""], members) : element("p", type(described)));
  return article;
}

fetch("/openapi.json").then((answer) => answer.json()).then((contract) => {
  document.getElementById("description").textContent = contract.info.description;
  const operations = Object.entries(contract.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, described]) => [method, path, described]));
  // The tags stand in the order of interest.
  for (const { name } of contract.tags)
    for (const one of operations.filter(([, , described]) => described.tags.includes(name)))
      document.getElementById("operations").append(operation(...one));
  for (const [name, described] of Object.entries(contract.components.schemas))
    document.getElementById("schemas").append(schema(name, described));
  // What is above the anchor has grown since the browser went there.
  document.getElementById(location.hash.slice(1))?.scrollIntoView();
});
