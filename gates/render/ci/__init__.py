"""Records in the formats of CI services: JUnit XML, SARIF."""
