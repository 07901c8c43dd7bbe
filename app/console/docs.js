// The page of the API's documentation. An API key that is typed in stays in the page's memory and is never stored.
SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#swagger-ui",
  tryItOutEnabled: true,
  defaultModelsExpandDepth: 0,
  displayRequestDuration: false,
  persistAuthorization: false,
  validatorUrl: null,
});
