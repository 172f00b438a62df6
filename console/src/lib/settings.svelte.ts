// What this browser keeps: the theme, saved filters, how far the tour is. Nothing secret.
function stored<T>(name: string, fallback: T): T {
  try {
    const text = localStorage.getItem(`tidelog.${name}`);
    return text === null ? fallback : (JSON.parse(text) as T);
  } catch {
    return fallback;
  }
}

function keep(name: string, value: unknown): void {
  try {
    localStorage.setItem(`tidelog.${name}`, JSON.stringify(value));
  } catch {
    // A browser that keeps nothing still shows everything.
  }
}

export type Theme = "system" | "dark" | "light";
export type SavedFilter = { name: string; link: string };

class Settings {
  theme: Theme = $state(stored<Theme>("theme", "system"));
  filters: SavedFilter[] = $state(stored<SavedFilter[]>("filters", []));
  tourStep: number = $state(stored("tourStep", 0));

  applyTheme(): void {
    if (this.theme === "system") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.dataset.theme = this.theme;
    keep("theme", this.theme);
  }
  nextTheme(): void {
    this.theme = this.theme === "system" ? "dark" : this.theme === "dark" ? "light" : "system";
    this.applyTheme();
  }
  saveFilter(filter: SavedFilter): void {
    this.filters = [...this.filters.filter((other) => other.name !== filter.name), filter].slice(-40);
    keep("filters", this.filters);
  }
  dropFilter(name: string): void {
    this.filters = this.filters.filter((other) => other.name !== name);
    keep("filters", this.filters);
  }
  setTourStep(step: number): void {
    this.tourStep = step;
    keep("tourStep", step);
  }
}

export const settings = new Settings();
